/**
 * Create Redrive: connects the store, the engine and the delivery with the real clock, randomness
 * and ids. No other file of the service knows where these come from.
 */
import { getRandomValues } from "node:crypto";
import {
  type Clock,
  quote,
  type Random,
  RedriveError,
  type RetryBudgetDocument,
  systemClock,
  systemRandom,
} from "@redrive/core";
import { memoize } from "./collections/bounded-cache.ts";
import { parseAllowlist } from "./deliver/address-guard/allowlist.ts";
import { checkTarget } from "./deliver/address-guard/target.ts";
import {
  createTargetPolicy,
  type ListenAddress,
  type TargetMode,
} from "./deliver/address-guard/target-policy.ts";
import { notStarted } from "./deliver/attempt-result.ts";
import { createDeliverer, type Deliverer } from "./deliver/deliverer.ts";
import { Engine } from "./engine/engine.ts";
import type { Deliver } from "./engine/run/deliver-function.ts";
import { openSecrets, type Secrets, sha256 } from "./intake/secrets.ts";
import { codedStore } from "./model/coded-store.ts";
import { uuidV7 } from "./model/ids.ts";
import { meteredStore } from "./model/metered-store.ts";
import type { Store } from "./model/store.ts";
import { callbacksOf } from "./operations/callback.ts";
import { Redrive } from "./redrive.ts";
import { memoryStore } from "./stores/memory/memory-store.ts";
import { sqliteStore } from "./stores/sqlite/sqlite-store.ts";

/** The cache takes a few MiB at most. */
const CACHED_TARGETS = 1000;

export interface RedriveOptions {
  /** `sqlite:PATH`, or `memory:` for trials: its content is lost when the process ends. */
  readonly store: string | Store;
  /** Which targets need no entry in `allowTargets`. Default: `loopback`, for development. */
  readonly targets?: TargetMode;
  /** Further targets: `cidr[:port]` or `name[:port]`, separated by commas. Default: none. */
  readonly allowTargets?: string;
  /** Where this process listens. Tasks that call their own service are denied. Default: none. */
  readonly own?: readonly ListenAddress[];
  /**
   * Encrypts stored headers that may contain secrets: 32 bytes in Base64 or hexadecimal, followed by
   * the previous keys, separated by commas. Default: none, nothing is encrypted.
   */
  readonly encryptionKey?: string;
  /**
   * The retry budget of the whole service, in addition to the budget of each destination; false:
   * none. Default: RATIO with `ratio` 0.2 and `minPerSecond` 100.
   */
  readonly retryBudget?: RetryBudgetDocument | false;
  /** How long ended tasks are kept. Default: 3 days. */
  readonly retentionMs?: number;
  /** How long dead letters are kept. Default: 30 days. */
  readonly deadLetterRetentionMs?: number;
  /**
   * The store can no longer guarantee its content, and the service accepts nothing more. Default:
   * throws the error where no code can catch it, which ends the process.
   */
  readonly onFatal?: (error: unknown) => void;
  /** Default: the system clock. */
  readonly clock?: Clock;
  /** Default: the system's randomness. */
  readonly random?: Random;
}

/** Opens the store, loads its state, and starts. */
export async function createRedrive(options: RedriveOptions): Promise<Redrive> {
  const { clock = systemClock, random = systemRandom } = options;
  const fill = (bytes: Uint8Array) => getRandomValues(bytes);
  const { store, onCommit } = meteredStore(clock, openStore(options.store));
  const secrets = await openSecrets(store.documents, fill, options.encryptionKey).catch(
    async (error: unknown) => {
      await store.close();
      throw error;
    },
  );
  const newId = uuidV7(fill);
  const allow = parseAllowlist(options.allowTargets ?? "");
  const targets = createTargetPolicy({
    mode: options.targets ?? "loopback",
    allow,
    own: options.own ?? [],
  });
  const deliverer = createDeliverer({ clock, targets });
  const engine = await Engine.open({
    clock,
    random,
    store,
    deliver: deliverThrough(deliverer, secrets),
    followUp: (task, settle, now) => callbacksOf(task, settle, now, newId),
    nodeId: newId(clock.now()),
    ...(options.retryBudget !== undefined && { retryBudget: options.retryBudget }),
    ...(options.retentionMs !== undefined && { retentionMs: options.retentionMs }),
    ...(options.deadLetterRetentionMs !== undefined && {
      deadLetterRetentionMs: options.deadLetterRetentionMs,
    }),
    onFatal: options.onFatal ?? ((error) => clock.endOfTurn(() => rethrow(error))),
  });
  const close = async () => {
    await deliverer.close();
    await store.close();
  };
  await engine.start().catch(async (error: unknown) => {
    await close();
    throw error;
  });
  const redrive = new Redrive({
    clock,
    store: codedStore(store, (error) => engine.recordStoreFailure(error)),
    engine,
    newId,
    digest: sha256,
    secrets,
    onCommit,
    checkTarget: memoize(CACHED_TARGETS, (url) => checkTarget(url, targets)),
    close,
  });
  await redrive.jobs.open();
  return redrive;
}

function rethrow(error: unknown): never {
  throw error;
}

function openStore(store: string | Store): Store {
  if (typeof store !== "string") return store;
  if (store === "memory:") return memoryStore();
  if (store.startsWith("sqlite:") && store.length > 7) return sqliteStore(store.slice(7));
  const message = `store must be sqlite:PATH or memory:, got ${quote(store)}`;
  throw new RedriveError("INVALID_ARGUMENT", message);
}

function deliverThrough(deliverer: Deliverer, secrets: Secrets): Deliver {
  return (task, limits, done) => {
    const opened = secrets.open(task);
    if (opened === null) {
      void Promise.resolve(notStarted({ kind: "fault" }, NO_SECRET)).then(done);
      return;
    }
    // It rejects only for an invalid request, which a retry would not change.
    const fail = (error: unknown) => {
      const errorMessage = error instanceof Error ? error.message : String(error);
      done(notStarted({ kind: "fault" }, { errorClass: "invalid-request", errorMessage }));
    };
    void deliverer.deliver(opened, limits).then(done, fail);
  };
}

const NO_SECRET = {
  errorClass: "secret-unavailable",
  errorMessage:
    "a header of the task cannot be decrypted: its key is not in REDRIVE_ENCRYPTION_KEY",
} as const;
