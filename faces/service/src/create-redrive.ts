/**
 * Create Redrive: connects the store, the engine and the delivery with the real clock, randomness
 * and ids. No other file of the service knows where these come from.
 */
import { getRandomValues } from "node:crypto";
import { systemClock, systemRandom } from "@redrive/core";
import { memoize } from "./collections/bounded-cache.ts";
import { checkTarget } from "./deliver/address-guard/target.ts";
import type { TargetPolicy } from "./deliver/address-guard/target-policy.ts";
import { notStarted } from "./deliver/attempt-result.ts";
import { createDeliverer, type Deliverer } from "./deliver/deliverer.ts";
import { defaultAttemptsAtOnce, openFileLimit } from "./deliver/open-file-limit.ts";
import { Engine } from "./engine/engine.ts";
import type { Deliver } from "./engine/run/deliver-function.ts";
import { openSecrets, type Secrets, sha256 } from "./intake/secrets.ts";
import { signingKeys } from "./intake/signing-keys.ts";
import { uuidV7 } from "./model/ids.ts";
import { codedStore } from "./model/store-wrappers/coded-store.ts";
import { meteredStore } from "./model/store-wrappers/metered-store.ts";
import { openStore } from "./open-store.ts";
import { followUpsOf } from "./operations/follow-ups.ts";
import { Redrive, type RedriveParts } from "./redrive.ts";
import { checkOptions, type RedriveOptions } from "./redrive-options.ts";

/** The cache takes a few MiB at most. */
const CACHED_TARGETS = 1000;

/**
 * Checks the options, opens the store, loads its state, and starts. A failure leaves nothing open.
 */
export async function createRedrive(options: RedriveOptions): Promise<Redrive> {
  const targets = checkOptions(options);
  const { clock = systemClock } = options;
  const { tenantShards } = options;
  const newLayoutId = () => uuidV7(fill)(clock.now());
  const opening = { clock, newId: newLayoutId, tenantShards };
  const { store, onCommit } = meteredStore(clock, await openStore(options.store, opening));
  const deliverer = createDeliverer({
    clock,
    targets,
    ...(options.resolver !== undefined && { resolver: options.resolver }),
  });
  const close = async () => {
    await deliverer.close();
    await store.close();
  };
  try {
    return await start(options, { clock, store, onCommit, targets, deliverer, close });
  } catch (error) {
    await close();
    throw error;
  }
}

function fill(bytes: Uint8Array): void {
  getRandomValues(bytes);
}

interface OpenParts extends Pick<RedriveParts, "clock" | "store" | "onCommit" | "close"> {
  readonly targets: TargetPolicy;
  readonly deliverer: Deliverer;
}

async function start(options: RedriveOptions, parts: OpenParts): Promise<Redrive> {
  const { clock, store, targets, deliverer } = parts;
  const secrets = await openSecrets(store.documents, fill, options.encryptionKey);
  const newId = uuidV7(fill);
  const engine = await Engine.open({
    clock,
    random: options.random ?? systemRandom,
    store,
    deliver: deliverThrough(deliverer, secrets),
    followUp: (task, settle, settings, now) => followUpsOf(task, settle, settings, now, newId),
    nodeId: newId(clock.now()),
    ...(options.retryBudget !== undefined && { retryBudget: options.retryBudget }),
    attemptsAtOnce: options.attemptsAtOnce ?? defaultAttemptsAtOnce(openFileLimit()),
    attemptsPerOrigin: options.attemptsPerOrigin,
    ...(options.retentionMs !== undefined && { retentionMs: options.retentionMs }),
    ...(options.deadLetterRetentionMs !== undefined && {
      deadLetterRetentionMs: options.deadLetterRetentionMs,
    }),
    leaseMs: options.leaseMs,
    maxClockStepMs: options.maxClockStepMs,
    maxClockAheadMs: options.maxClockAheadMs,
    onFatal: options.onFatal ?? ((error) => clock.endOfTurn(() => rethrow(error))),
  });
  await engine.start();
  const redrive = new Redrive({
    ...parts,
    store: codedStore(store, (error) => engine.recordStoreFailure(error)),
    engine,
    newId,
    digest: sha256,
    secrets,
    checkTarget: memoize(CACHED_TARGETS, (url) => checkTarget(url, targets)),
  });
  try {
    await redrive.jobs.open();
  } catch (error) {
    await engine.stop(0);
    throw error;
  }
  return redrive;
}

function rethrow(error: unknown): never {
  throw error;
}

function deliverThrough(deliverer: Deliverer, secrets: Secrets): Deliver {
  const signingKeysOf = signingKeys(secrets);
  return (task, limits, done) => {
    const opened = secrets.open(task);
    const keys = signingKeysOf(task, limits.delivery);
    if (opened === null || keys === null) {
      const missing = opened === null ? NO_SECRET : NO_SIGNING_SECRET;
      void Promise.resolve(notStarted({ kind: "fault" }, missing)).then(done);
      return;
    }
    // It rejects only for an invalid request, which a retry would not change.
    const fail = (error: unknown) => {
      const errorMessage = error instanceof Error ? error.message : String(error);
      done(notStarted({ kind: "fault" }, { errorClass: "invalid-request", errorMessage }));
    };
    const request = keys.length === 0 ? opened : { ...opened, signingKeys: keys };
    void deliverer.deliver(request, limits).then(done, fail);
  };
}

const NO_SIGNING_SECRET = {
  errorClass: "secret-unavailable",
  errorMessage:
    "a signing secret of the destination cannot be decrypted: its key is not in REDRIVE_ENCRYPTION_KEY",
} as const;

const NO_SECRET = {
  errorClass: "secret-unavailable",
  errorMessage:
    "a header of the task cannot be decrypted: its key is not in REDRIVE_ENCRYPTION_KEY",
} as const;
