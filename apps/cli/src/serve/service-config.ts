/**
 * Service config: the configuration of `redrive serve` from flags, environment and file, in order
 * of precedence, with the files of its store and the keys that it accepts. Errors are reported
 * before anything is opened.
 */
import {
  booleanRule,
  causedError,
  checkFields,
  choiceRule,
  DocumentError,
  type Fields,
  isObject,
  numberRule,
  quote,
  RedriveError,
  type RetryBudgetDocument,
  type Rule,
  resolveDestination,
  systemClock,
  textRule,
} from "@redrive/core";
import { type AlertOptions, storeName } from "@redrive/service";
import {
  DEFAULT_HOST,
  DEFAULT_PORT,
  fileKeyStore,
  type KeyRecord,
  type KeyStore,
  memoryKeyStore,
  recordOfKey,
} from "@redrive/service/http";
import { readJson, withFileName } from "../terminal/documents.ts";
import { checkTelemetry, type TelemetryFile } from "./telemetry.ts";

/** A flag that is not set is undefined. Commander reads the environment variables of flags. */
export interface ServiceFlags {
  readonly host?: string;
  readonly port?: number;
  readonly store?: string;
  readonly blobs?: string;
  readonly maxBody?: number;
  readonly allowTargets?: string;
  readonly resolver?: "dns" | "system";
  readonly insecureNoAuth?: boolean;
  /** A share of first attempts, or "off". */
  readonly retryBudget?: number | "off";
  readonly attemptsAtOnce?: number;
  readonly attemptsPerOrigin?: number;
  /** In milliseconds. */
  readonly lease?: number;
  readonly alertUrl?: string;
  /** False: no log line per attempt and end of a task. Default: true. */
  readonly taskLog?: boolean;
  readonly config?: string;
}

/** The fields of the configuration file. All are optional. */
interface ServiceFile {
  readonly host?: string;
  readonly port?: number;
  readonly store?: string;
  /** Where large bodies are stored. Default: next to a SQLite file. */
  readonly blobs?: string;
  /** Bodies of at most this many bytes are stored in the row of their task. */
  readonly inlineBodyBytes?: number;
  readonly maxBodyBytes?: number;
  readonly allowTargets?: string;
  readonly resolver?: "dns" | "system";
  readonly hosts?: readonly string[];
  readonly insecureNoAuth?: boolean;
  readonly requestsPerSecond?: number;
  readonly requestsAtOnce?: number;
  readonly maxWaiting?: number;
  readonly maxConnectionsPerAddress?: number;
  readonly attemptsAtOnce?: number;
  readonly attemptsPerOrigin?: number;
  /** The budget of all destinations together, as in a destination document. False for none. */
  readonly retryBudget?: RetryBudgetDocument | false;
  readonly retentionMs?: number;
  readonly deadLetterRetentionMs?: number;
  readonly leaseMs?: number;
  readonly maxClockStepMs?: number;
  readonly maxClockAheadMs?: number;
  /** Where alerts are posted, and when they fire. */
  readonly alerts?: AlertOptions;
  /** What to export to OpenTelemetry. Default: what the environment says. */
  readonly telemetry?: TelemetryFile;
}

export interface ServiceConfig extends ServiceFile {
  readonly host: string;
  readonly port: number;
  readonly store: string;
}

export const DEFAULT_STORE = "sqlite:redrive.db";

const STORE_FORMS = "sqlite:PATH, postgres://..., redis://... or memory:";

const namesRule: Rule = (value) =>
  Array.isArray(value) &&
  value.every((one) => typeof one === "string" && /^[\w.:[\]-]+$/u.test(one))
    ? undefined
    : "a list of host names";

/** Checks only the type. `checkBudget` checks the fields. */
const budgetRule: Rule = (value) =>
  value === false || isObject(value) ? undefined : "the fields of a retry budget, or false";

const YEAR_MS = 365 * 86_400_000;

const FIELDS: Fields & Readonly<Record<keyof ServiceFile, unknown>> = {
  host: textRule(/^[\w.:[\]-]{1,255}$/u, "an address to listen on"),
  port: numberRule(0, 65_535),
  store: textRule(/^.{1,4096}$/u, STORE_FORMS),
  blobs: textRule(/^(?:file:|s3:\/\/).{1,4096}$/u, "file:DIR or s3://BUCKET/PREFIX"),
  inlineBodyBytes: numberRule(0, 1024 ** 2),
  maxBodyBytes: numberRule(1, 5 * 1024 ** 3),
  allowTargets: textRule(/^.{0,10000}$/u, "cidr[:port] or name[:port], separated by commas"),
  resolver: choiceRule("dns", "system"),
  hosts: namesRule,
  insecureNoAuth: booleanRule,
  requestsPerSecond: numberRule(1, 1_000_000),
  requestsAtOnce: numberRule(1, 1_000_000),
  maxWaiting: numberRule(1, Number.MAX_SAFE_INTEGER),
  maxConnectionsPerAddress: numberRule(1, 1_000_000),
  attemptsAtOnce: numberRule(1, 1_000_000),
  attemptsPerOrigin: numberRule(1, 1_000_000),
  retryBudget: budgetRule,
  retentionMs: numberRule(1000, YEAR_MS),
  deadLetterRetentionMs: numberRule(1000, 10 * YEAR_MS),
  leaseMs: numberRule(1000, 600_000),
  maxClockStepMs: numberRule(60_000, YEAR_MS),
  maxClockAheadMs: numberRule(1000, YEAR_MS),
  // The service checks its fields.
  alerts: (value: unknown) => (isObject(value) ? undefined : "an object with a url"),
  telemetry: (value: unknown) => (isObject(value) ? undefined : "an object"),
};

/** Throws `INVALID_ARGUMENT` for an invalid configuration. */
export function serviceConfig(flags: ServiceFlags): ServiceConfig {
  const { config: path, retryBudget, alertUrl, maxBody, lease, ...given } = flags;
  const file = path === undefined ? {} : readServiceFile(path);
  const known = Object.fromEntries(
    Object.entries(given).filter(([name, value]) => value !== undefined && name in FIELDS),
  );
  const config = {
    host: DEFAULT_HOST,
    port: DEFAULT_PORT,
    store: DEFAULT_STORE,
    ...file,
    ...known,
    ...(retryBudget !== undefined && { retryBudget: retryBudgetFrom(retryBudget) }),
    ...(alertUrl !== undefined && { alerts: { ...file.alerts, url: alertUrl } }),
    ...(maxBody !== undefined && { maxBodyBytes: maxBody }),
    ...(lease !== undefined && { leaseMs: lease }),
  };
  storePath(config.store);
  if (config.insecureNoAuth && config.allowTargets) throw openRelayError();
  return config;
}

function retryBudgetFrom(share: number | "off"): RetryBudgetDocument | false {
  return share === "off" ? false : { ratio: share };
}

/** Both flags together would let anyone reach private targets through the service. */
function openRelayError(): Error {
  const message =
    "--insecure-no-auth and --allow-targets must not be used together: create a key (`redrive keys add`), or allow no targets";
  return new RedriveError("INVALID_ARGUMENT", message);
}

function readServiceFile(path: string): ServiceFile {
  const file = readJson(path);
  return withFileName(path, () => {
    const problems = checkFields(file, FIELDS);
    const { telemetry } = file as ServiceFile;
    if (problems.length === 0 && telemetry !== undefined)
      problems.push(...checkTelemetry(telemetry));
    if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
    checkBudget(file as ServiceFile);
    return file as ServiceFile;
  });
}

/** Uses the check for destination documents, but reports `INVALID_ARGUMENT`. */
function checkBudget({ retryBudget = false }: ServiceFile): void {
  try {
    resolveDestination({ retryBudget });
  } catch (error) {
    if (!(error instanceof DocumentError)) throw error;
    throw causedError("INVALID_ARGUMENT", error.message, error);
  }
}

/**
 * The path of a SQLite store, or undefined for a store in memory or on a server. Throws for any other
 * text.
 */
export function storePath(store: string): string | undefined {
  if (store === "memory:" || isServerStore(store)) return undefined;
  if (/^sqlite:./u.test(store)) return store.slice("sqlite:".length);
  const message = `--store must be ${STORE_FORMS}, got ${quote(storeName(store))}${storeHint(store)}`;
  throw new RedriveError("INVALID_ARGUMENT", message);
}

/** True of a store on a server, which several nodes may share. */
export function isServerStore(store: string): boolean {
  return /^(?:rediss?(?:\+sentinel|\+cluster)?|postgres(?:ql)?):\/\/./u.test(store);
}

function storeHint(store: string): string {
  if (store === "memory") return '; did you mean "memory:"?';
  return store.includes(":") || store === "" ? "" : `; did you mean ${quote(`sqlite:${store}`)}?`;
}

// Store file: what the commands that work on the file of a store share.

/** Throws `INVALID_ARGUMENT` for a store in memory or on a server. */
export function storeFile(store: string = DEFAULT_STORE): string {
  const path = storePath(store);
  if (path !== undefined) return path;
  throw new RedriveError("INVALID_ARGUMENT", "only a SQLite store has a file: use sqlite:PATH");
}

/** Gives failures of the file a code: of the system a wrong path, of SQLite a damaged file. */
export async function withFileErrors<T>(work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Error) || error instanceof RedriveError) throw error;
    if (error.name === "StoreFullError") throw causedError("STORE_FULL", error.message, error);
    const code = "syscall" in error ? "INVALID_ARGUMENT" : "STORE_DAMAGED";
    throw causedError(code, error.message, error);
  }
}

// API keys: the keys that a service accepts: those in the file next to its store, and
// `REDRIVE_API_KEY`. Without any key, calls need none, and the service may listen only on loopback.

/** The key file of a store. Undefined for a store that has no file. */
export function keyFilePath(store: string): string | undefined {
  const path = storePath(store);
  return path === undefined ? undefined : `${path}.keys.json`;
}

/** Undefined if there is no key: then calls need none. */
export function acceptedKeys(store: string, apiKey: string | undefined): KeyStore | undefined {
  const path = keyFilePath(store);
  const file = path === undefined ? memoryKeyStore() : fileKeyStore(path, systemClock);
  const given = apiKey ? environmentKey(apiKey) : undefined;
  if (given === undefined) return file.list().length > 0 ? file : undefined;
  return {
    ...file,
    find: (keyId) => (keyId === given.keyId ? given : file.find(keyId)),
    list: () => [given, ...file.list()],
    isRevocable: (keyId) => keyId !== given.keyId && file.isRevocable(keyId),
  };
}

function environmentKey(apiKey: string): KeyRecord {
  const now = systemClock.now();
  const name = "REDRIVE_API_KEY";
  return recordOfKey(apiKey, { tenantId: "default", scopes: ["admin"], name, now });
}
