/**
 * Redrive options: the options of `createRedrive` and their check. Everything that can be refused
 * without the store is refused before the store is opened, with the messages of documents.
 */
import {
  type Clock,
  causedError,
  checkFields,
  choiceRule,
  DocumentError,
  type Fields,
  fieldProblem,
  isObject,
  numberRule,
  type Random,
  type RetryBudgetDocument,
  type Rule,
} from "@redrive/core";
import { MAX_BODY_BYTES, MAX_INLINE_BYTES } from "./bodies/bodies.ts";
import { BLOB_FORMS, checkBlobsText } from "./bodies/open-blobs.ts";
import {
  createTargetPolicy,
  type ListenAddress,
  parseAllowlist,
  type TargetMode,
  type TargetPolicy,
} from "./deliver/address-guard.ts";
import type { ResolverKind } from "./deliver/lookup.ts";
import { checkTarget } from "./deliver/target.ts";
import { serviceBudgetOptions } from "./engine/guard-saver.ts";
import { MAX_LEASE_MS, MIN_LEASE_MS } from "./engine/node.ts";
import { encryptionKeyIds } from "./intake/secrets.ts";
import { serviceError } from "./model/errors.ts";
import type { Store } from "./model/store.ts";
import { checkStoreText, isStoreText, STORE_FORMS, storeName } from "./open-store.ts";
import type { TelemetryOptions } from "./open-telemetry.ts";
import { type AlertOptions, checkAlerts } from "./operations/alerts.ts";

export interface RedriveOptions {
  /**
   * `sqlite:PATH`; `postgres://USER:PASSWORD@HOST:PORT/DATABASE` or `redis://HOST` (also with `rediss`,
   * `+sentinel` or `+cluster`), which several nodes may share; or `memory:` for trials: its content is
   * lost when the process ends.
   */
  readonly store: string | Store;
  /**
   * Where bodies are stored that are too long for a row: `file:DIR`, or `s3://BUCKET/PREFIX`, which needs
   * the package `@aws-sdk/client-s3`. The nodes of a fleet must share it. Default: the directory
   * `PATH.blobs` next to a SQLite file; other stores refuse long bodies.
   */
  readonly blobs?: string;
  /** Bodies of at most this many bytes are stored in the row. 0 to 1 MiB. Default: 64 KiB. */
  readonly inlineBodyBytes?: number;
  /** The longest body of a task, in bytes. 1 to 5 GiB. Default: 1 GiB. */
  readonly maxBodyBytes?: number;
  /** Which targets need no entry in `allowTargets`. Default: `loopback`, for development. */
  readonly targets?: TargetMode;
  /** Further targets: `cidr[:port]` or `name[:port]`, separated by commas. Default: none. */
  readonly allowTargets?: string;
  /**
   * How the names of targets are looked up. `dns`: the name servers, the hosts file and the search
   * list. `system`: the operating system, which also knows mDNS or NIS, but then a few slow names
   * delay all lookups. Default: `dns`.
   */
  readonly resolver?: ResolverKind;
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
  /**
   * Attempts that run at once in this process. 1 to 1 000 000. Default: 1024, or half of the files
   * that the process may open if that is less.
   */
  readonly attemptsAtOnce?: number;
  /** Attempts that run at once to one origin: scheme, host and port. 1 to 1 000 000. Default: 256. */
  readonly attemptsPerOrigin?: number;
  /** How long ended tasks are kept. 1 second to 365 days. Default: 3 days. */
  readonly retentionMs?: number;
  /** How long dead letters are kept. 1 second to 3650 days. Default: 30 days. */
  readonly deadLetterRetentionMs?: number;
  /**
   * The length of a node's lease, also called visibility timeout. A node renews it five times in that
   * time; a node that cannot loses its claims. 1 second to 10 minutes. Default: 10 seconds.
   */
  readonly leaseMs?: number;
  /**
   * The service follows a clock that jumps ahead by at most this much; a larger jump is refused. 1
   * minute to 365 days. Default: 7 days.
   */
  readonly maxClockStepMs?: number;
  /**
   * The service refuses to start if the store contains instants that are further ahead of the clock. 1
   * second to 365 days. Default: 1 hour.
   */
  readonly maxClockAheadMs?: number;
  /** Posts an alert to a webhook when something needs a person. Default: no alerts. */
  readonly alerts?: AlertOptions;
  /**
   * Reports attempts to OpenTelemetry, whose SDK you set up: spans and metrics. `{}`: to its global
   * providers. Default: nothing is reported.
   */
  readonly telemetry?: TelemetryOptions;
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

const YEAR_MS = 365 * 86_400_000;

const anything: Rule = () => undefined;

function typeRule(wanted: string, isGood: (value: unknown) => boolean): Rule {
  return (value) => (isGood(value) ? undefined : wanted);
}

const objectRule = typeRule("an object", isObject);

const FIELDS: Fields & Readonly<Record<keyof RedriveOptions, unknown>> = {
  store: typeRule(
    STORE_FORMS,
    (value) => isStoreText(value) || (isObject(value) && !Array.isArray(value)),
  ),
  blobs: typeRule(BLOB_FORMS, (value) => typeof value === "string"),
  inlineBodyBytes: numberRule(0, MAX_INLINE_BYTES),
  maxBodyBytes: numberRule(1, MAX_BODY_BYTES),
  targets: choiceRule("loopback", "public"),
  allowTargets: typeRule("a string", (value) => typeof value === "string"),
  resolver: choiceRule("dns", "system"),
  own: typeRule(
    "a list of { address, port }",
    (value) => Array.isArray(value) && value.every(isObject),
  ),
  // Checked separately, because a message must not quote it.
  encryptionKey: anything,
  retryBudget: typeRule(
    "the fields of a retry budget, or false",
    (value) => value === false || isObject(value),
  ),
  attemptsAtOnce: numberRule(1, 1_000_000),
  attemptsPerOrigin: numberRule(1, 1_000_000),
  retentionMs: numberRule(1000, YEAR_MS),
  deadLetterRetentionMs: numberRule(1000, 10 * YEAR_MS),
  leaseMs: numberRule(MIN_LEASE_MS, MAX_LEASE_MS),
  maxClockStepMs: numberRule(60_000, YEAR_MS),
  maxClockAheadMs: numberRule(1000, YEAR_MS),
  alerts: objectRule,
  telemetry: objectRule,
  onFatal: typeRule("a function", (value) => typeof value === "function"),
  clock: objectRule,
  random: objectRule,
};

/** Throws `INVALID_ARGUMENT`; returns which targets the options allow. */
export function checkOptions(options: RedriveOptions): TargetPolicy {
  const problems = checkFields(withoutPassword(options), FIELDS);
  if (problems.length === 0 && options.store === undefined) {
    problems.push(fieldProblem("store", undefined, `store must be ${STORE_FORMS}`));
  }
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
  if (isStoreText(options.store)) checkStoreText(options.store);
  if (options.blobs !== undefined) checkBlobsText(options.blobs);
  const { targets = "loopback", allowTargets = "", own = [], encryptionKey = "" } = options;
  checkEncryptionKey(encryptionKey);
  checkBudget(options);
  const policy = createTargetPolicy({ mode: targets, allow: parseAllowlist(allowTargets), own });
  assertAlerts(options, policy);
  return policy;
}

/** A message quotes the value of a wrong field, but never the password of a store. */
function withoutPassword(options: RedriveOptions): RedriveOptions {
  if (!isObject(options)) return options;
  const { store } = options;
  return typeof store === "string" ? { ...options, store: storeName(store) } : options;
}

/** An empty key means none, as an empty environment variable does. */
function checkEncryptionKey(key: unknown): void {
  if (typeof key !== "string") {
    throw serviceError("INVALID_ARGUMENT", `encryptionKey must be a string, got ${typeof key}`);
  }
  if (key !== "") encryptionKeyIds(key);
}

function assertAlerts({ alerts }: RedriveOptions, policy: TargetPolicy): void {
  if (alerts === undefined) return;
  const problems = checkAlerts(alerts);
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
  const target = checkTarget(alerts.url, policy);
  if (target.ok) return;
  throw serviceError("INVALID_ARGUMENT", `alerts.url is refused: ${target.message}`);
}

/** Uses the check for destination documents, but reports `INVALID_ARGUMENT`. */
function checkBudget({ retryBudget }: RedriveOptions): void {
  try {
    serviceBudgetOptions(retryBudget);
  } catch (error) {
    if (!(error instanceof DocumentError)) throw error;
    throw causedError("INVALID_ARGUMENT", error.message, error);
  }
}
