/**
 * Doctor checks: check whether a service can run on this machine, each with a fix. The checks
 * create no store, key or port. The repairs of a store and of its clock are here too.
 */

import { accessSync, constants, existsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import process from "node:process";
import {
  type Clock,
  formatCount,
  formatDuration,
  formatInteger,
  messageOf,
  RedriveError,
  systemClock,
} from "@redrive/core";
import {
  acceptSqliteLoss,
  type ClockStatus,
  checkSqliteFile,
  type EncryptionStatus,
  encryptionKeyIds,
  type FileReport,
  inspectBlobs,
  inspectPostgres,
  inspectRedis,
  inspectSqliteFile,
  MAX_CLOCK_AHEAD_MS,
  type PostgresReport,
  type RedisReport,
  readSqliteClock,
  readSqliteDocuments,
  repairSqliteClock,
  storeName,
  whyUnreadable,
} from "@redrive/service";
import { formatAgo } from "../terminal/event-text.ts";
import { FAILED, OK, type Presentation } from "../terminal/presentation.ts";
import { probePort } from "./ports.ts";
import { isLoopback } from "./running-service.ts";
import {
  acceptedKeys,
  isServerStore,
  type ServiceConfig,
  storeFile,
  storePath,
  withFileErrors,
} from "./service-config.ts";

/** The result of one check. */
export interface Check {
  readonly name: string;
  readonly state: "ok" | "warn" | "fail";
  readonly found: string;
  /** How to fix the problem. Empty if there is none. */
  readonly fix: string;
}

/** The environment variables that a service reads. */
interface ServiceSecrets {
  readonly apiKey: string | undefined;
  readonly encryptionKey: string | undefined;
}

export async function runChecks(
  config: ServiceConfig,
  { apiKey, encryptionKey }: ServiceSecrets,
): Promise<readonly Check[]> {
  const isRunning = await isServiceRunning(config);
  const readiness = isRunning ? await readService<Readiness>(config, "/readyz") : undefined;
  return [
    checkNode(process.versions.node),
    ...(await checkStores(config.store, isRunning)),
    await checkBlobs(config),
    await checkPort(config, isRunning),
    checkKey(config, apiKey),
    checkEncryption(encryptionKey, readiness?.encryption),
    checkClock(systemClock, config, readiness?.clock),
    checkDocuments(config.store, readiness?.unreadableDocuments),
  ];
}

function ok(name: string, found: string): Check {
  return { name, state: "ok", found, fix: "" };
}

function checkNode(version: string): Check {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const isGood = major > 20 || (major === 20 && minor >= 19);
  const name = "node";
  if (isGood) return ok(name, version);
  return { name, state: "fail", found: version, fix: "install Node.js 20.19 or later" };
}

async function checkStores(store: string, isRunning: boolean): Promise<readonly Check[]> {
  if (!isServerStore(store)) return [checkStore(store, isRunning)];
  return checkServer(store);
}

function checkServer(store: string): Promise<readonly Check[]> {
  return store.startsWith("redis") ? checkRedis(store) : checkPostgres(store);
}

/** Checks that the file is a Redrive store of a known version and is not damaged. */
function checkStore(store: string, isRunning: boolean): Check {
  const name = "store";
  const path = storePath(store);
  if (path === undefined) {
    const fix = "data is lost when the process ends: use --store sqlite:PATH";
    return { name, state: "warn", found: "in memory", fix };
  }
  const found = existsSync(path) ? statSync(path) : undefined;
  if (found === undefined) return checkFolder(path);
  try {
    const [damage] = checkSqliteFile(path);
    if (damage !== undefined) throw new Error(`${path} is damaged: ${damage}`);
    return ok(name, `${path} opens and is not damaged, ${Math.ceil(found.size / 1024)} KB`);
  } catch (error) {
    const message = (error as Error).message;
    if (isRunning && message.includes("is in use"))
      return ok(name, `${path}: in use by the running service`);
    return { name, state: "fail", found: message, fix: storeFix(message) };
  }
}

/** Checks that the first start can create the file: the nearest existing folder must be writable. */
function checkFolder(path: string): Check {
  const name = "store";
  let folder = dirname(resolve(path));
  while (!existsSync(folder)) folder = dirname(folder);
  try {
    accessSync(folder, constants.W_OK);
    if (!statSync(folder).isDirectory()) throw new Error(`${folder} is not a folder`);
    return ok(name, `${path} does not exist yet; the first start creates it`);
  } catch (error) {
    const fix = "choose a folder that Redrive may write to";
    return { name, state: "fail", found: (error as Error).message, fix };
  }
}

function storeFix(message: string): string {
  if (message.includes("is in use")) return "stop the other process, or choose another file";
  if (message.includes("damaged")) return "see what can be saved with `redrive doctor --repair`";
  return "choose a file that Redrive may read and write";
}

/** A service responds within this time. */
const PROBE_TIMEOUT_MS = 2000;

async function isServiceRunning(config: ServiceConfig): Promise<boolean> {
  const document = await readService<{ info?: { title?: string } }>(config, "/openapi.json");
  return document?.info?.title === "Redrive";
}

/** A document of the running service; undefined: it does not respond. */
async function readService<T>({ host, port }: ServiceConfig, path: string): Promise<T | undefined> {
  const late = new AbortController();
  const cancel = systemClock.alarm(PROBE_TIMEOUT_MS, () => late.abort());
  try {
    const name = /^(?:0\.0\.0\.0|::)$/u.test(host) ? "127.0.0.1" : host;
    const response = await fetch(`http://${name}:${port}${path}`, { signal: late.signal });
    return (await response.json()) as T;
  } catch {
    return undefined;
  } finally {
    cancel();
  }
}

/** The part of `/readyz` that is reported. */
interface Readiness {
  readonly clock?: ClockStatus;
  readonly encryption?: EncryptionStatus;
  readonly unreadableDocuments?: number;
}

async function checkPort({ host, port }: ServiceConfig, isRunning: boolean): Promise<Check> {
  const name = "port";
  if (isRunning) return ok(name, `a Redrive service responds at ${host}:${port}`);
  try {
    if ((await probePort(host, port)) !== undefined) return ok(name, `${host}:${port} is free`);
    const fix = "stop the process that listens there, or choose another --port";
    return { name, state: "fail", found: `${host}:${port} is taken`, fix };
  } catch (error) {
    const fix = "choose an address of this machine with --host and a port above 1023";
    return { name, state: "fail", found: (error as Error).message, fix };
  }
}

/**
 * Checks the keys that the next start gets. `running`: the keys of the running service and of its fleet.
 * Without it, only the format is checked: the store's key is known only to a service that opens the store.
 */
export function checkEncryption(key: string | undefined, running?: EncryptionStatus): Check {
  const name = "encryption";
  const [current] = running?.keys ?? [];
  try {
    const [first, ...others] = key ? encryptionKeyIds(key) : [];
    if (current !== undefined && first !== current && !others.includes(current)) {
      const found = `the running service encrypts with key ${current}, which is not among the keys here`;
      return { name, state: "fail", found, fix: "add it after a comma: OLD,NEW" };
    }
    if (first === undefined)
      return ok(name, "no key: the store contains the headers of tasks in plain text");
    const found = `the store encrypts the headers of tasks with key ${first}`;
    if (running === undefined) return ok(name, found);
    const { nodes, nodesWith } = running;
    const count = nodesWith[first] ?? 0;
    if (count === nodes) return ok(name, `${found}, and all nodes have it (${nodes})`);
    const fix = "start every node with OLD,NEW before the first one with NEW,OLD";
    const lack = `${count} of ${nodes} nodes have key ${first}: the others would hold its tasks`;
    return { name, state: "warn", found: lack, fix };
  } catch (error) {
    const fix = "create one with `openssl rand -base64 32`";
    return { name, state: "fail", found: (error as Error).message, fix };
  }
}

function checkKey(
  { host, store, insecureNoAuth }: ServiceConfig,
  apiKey: string | undefined,
): Check {
  const name = "key";
  try {
    const keys = acceptedKeys(store, apiKey);
    if (keys !== undefined) return ok(name, `${keys.list().length} known: every call needs a key`);
    if (isLoopback(host)) return ok(name, "none: loopback needs no key");
    const fix = "create one with `redrive keys add`, or set REDRIVE_API_KEY";
    if (insecureNoAuth) return { name, state: "warn", found: `none: ANYONE may call ${host}`, fix };
    return { name, state: "fail", found: `none, but other machines can reach ${host}`, fix };
  } catch (error) {
    const fix = "create one with `redrive keys add`";
    return { name, state: "fail", found: (error as Error).message, fix };
  }
}

// Doctor clock: compares the machine's clock with the store, and repairs a store that is ahead.

/** 2026-01-01: Redrive did not exist before, so an earlier clock is wrong. */
const MIN_CLOCK_AT = 1_767_225_600_000;

/** Smaller differences have no effect. */
const MAX_SKEW_MS = 5000;

const CLOCK = "clock";
const SET_CLOCK = "set the clock (NTP): delays and deadlines depend on it";

/** `running`: the clock as the running service reports it; undefined: no service runs. */
export function checkClock(
  clock: Clock,
  { store, maxClockAheadMs = MAX_CLOCK_AHEAD_MS }: Pick<ServiceConfig, "store" | "maxClockAheadMs">,
  running?: ClockStatus,
): Check {
  const now = clock.now();
  if (now < MIN_CLOCK_AT) {
    return { name: CLOCK, state: "fail", found: "the clock is before 2026", fix: SET_CLOCK };
  }
  if (running !== undefined) return checkRunning(running);
  const aheadMs = storedAt(store, now) - now;
  if (aheadMs <= MAX_SKEW_MS) {
    return { name: CLOCK, state: "ok", found: "the time is plausible", fix: "" };
  }
  const found = `the store was written ${formatDuration(aheadMs)} from now`;
  const fix = `${SET_CLOCK}; if it is right, run \`redrive doctor --repair-clock\``;
  return { name: CLOCK, state: aheadMs > maxClockAheadMs ? "fail" : "warn", found, fix };
}

const STATES = {
  synced: ["ok", "the running service agrees with the clock"],
  following: ["warn", "the running service follows the clock"],
  ahead: ["warn", "the running service runs slower until the clock catches up"],
  refused: ["fail", "the running service refuses the clock"],
} as const;

function checkRunning({ state, skewMs }: ClockStatus): Check {
  const [level, text] = STATES[state];
  if (level === "ok") return { name: CLOCK, state: level, found: text, fix: "" };
  const side = skewMs > 0 ? "ahead" : "behind";
  const found = `${text}, which is ${formatDuration(Math.abs(skewMs))} ${side}`;
  const fix = level === "fail" ? `${SET_CLOCK}, or restart the service if it is right` : "";
  return { name: CLOCK, state: level, found, fix };
}

/** The latest instant in the store; if it cannot be opened, when the file was written. */
function storedAt(store: string, now: number): number {
  const path = storePath(store);
  if (path === undefined || !existsSync(path)) return now;
  try {
    return readSqliteClock(path);
  } catch {
    // The check of the store reports why it cannot be opened.
    return statSync(path).mtimeMs;
  }
}

/** Resets the store of a stopped service to the machine's clock; returns what was done. */
export function repairClock(clock: Clock, store: string): Check {
  const path = storePath(store);
  if (path === undefined || !existsSync(path)) {
    const text = `--repair-clock needs an existing store sqlite:PATH, got ${store}`;
    throw new RedriveError("INVALID_ARGUMENT", text);
  }
  const { aheadMs, waitingTasks } = repairSqliteClock(path, clock.now());
  const found =
    aheadMs === 0
      ? "the store is not ahead of the clock; nothing was changed"
      : `the store was ${formatDuration(aheadMs)} ahead and was reset to the clock; ${waitingTasks} waiting tasks were moved`;
  return { name: "repair", state: "ok", found, fix: "" };
}

// Doctor blobs: checks the place where the service stores large bodies, without storing anything.

const BODIES = "bodies";

async function checkBlobs({ store, blobs }: ServiceConfig): Promise<Check> {
  try {
    const { place, exists } = await inspectBlobs(store, blobs);
    if (place === null) return noPlace(store);
    const found = exists
      ? `${place} can be reached`
      : `${place} does not exist yet; the first large body creates it`;
    if (isServerStore(store) && place.startsWith("file:")) {
      return {
        name: BODIES,
        state: "warn",
        found,
        fix: "make sure that all nodes share this directory",
      };
    }
    return { name: BODIES, state: "ok", found, fix: "" };
  } catch (error) {
    const fix = "correct --blobs, its permissions, or the credentials in the environment";
    return { name: BODIES, state: "fail", found: (error as Error).message, fix };
  }
}

function noPlace(store: string): Check {
  const found = "no place for bodies above 64 KiB: they are refused";
  const fix = "set --blobs s3://BUCKET/PREFIX, or file:DIR in a directory that all nodes share";
  return { name: BODIES, state: store === "memory:" ? "ok" : "warn", found, fix };
}

// Doctor documents: checks that this version can read the stored policies and destinations.

const DOCUMENTS = "documents";
const DOCUMENTS_FIX =
  "replace them (PUT), or run the version that wrote them; other tasks are not affected";

/** The first ones are named. */
const MAX_NAMED = 5;

/** `running`: how many the running service has met; undefined: no service runs. */
export function checkDocuments(store: string, running?: number): Check {
  if (running !== undefined)
    return running === 0
      ? ok(DOCUMENTS, "the running service has read all")
      : metDocuments(running);
  if (isServerStore(store)) return ok(DOCUMENTS, "not checked: only a running service reads them");
  const path = storePath(store);
  if (path === undefined || !existsSync(path)) return ok(DOCUMENTS, "none are stored yet");
  try {
    const found = unreadableIn(path);
    if (found.length === 0) return ok(DOCUMENTS, "all can be read");
    const more = found.length > MAX_NAMED ? `; and ${found.length - MAX_NAMED} more` : "";
    const names = found.slice(0, MAX_NAMED).join("; ") + more;
    return {
      name: DOCUMENTS,
      state: "warn",
      found: `tasks are held by ${names}`,
      fix: DOCUMENTS_FIX,
    };
  } catch {
    // The check of the store says why.
    return ok(DOCUMENTS, "not checked, because the store cannot be opened");
  }
}

/** A sentence for each document that this version cannot read. */
function unreadableIn(path: string): readonly string[] {
  const found: string[] = [];
  readSqliteDocuments(path, ({ kind, title, text }) => {
    const reason = whyUnreadable(kind, text);
    if (reason !== null) found.push(`${title}: ${reason}`);
  });
  return found;
}

function metDocuments(count: number): Check {
  const found = `the running service holds the tasks of ${count}; its log names them`;
  return { name: DOCUMENTS, state: "warn", found, fix: DOCUMENTS_FIX };
}

// Doctor PostgreSQL: checks the server of a store, with a line for each setting that matters.

/** Older transactions keep dead rows, and claims become slower. */
const MAX_TRANSACTION_MS = 300_000;

/** Fewer dead rows have no effect. */
const MIN_DEAD_ROWS = 10_000;

async function checkPostgres(store: string): Promise<readonly Check[]> {
  try {
    const report = await inspectPostgres(store);
    return [
      ok("store", `${storeName(store)} responds, PostgreSQL ${report.serverVersion}`),
      checkSchema(report),
      checkDurability(report),
      checkTransactions(report),
      checkDeadRows(report),
    ];
  } catch (error) {
    const fix = "start the server, or correct the address, the user and the password";
    return [{ name: "store", state: "fail", found: messageOf(error), fix }];
  }
}

function checkSchema({ schemaVersion, ownVersion }: PostgresReport): Check {
  if (schemaVersion === 0) return ok("schema", "does not exist yet; the first start creates it");
  if (schemaVersion === ownVersion) return ok("schema", `version ${schemaVersion}`);
  return ok("schema", `version ${schemaVersion}; the next start brings it to ${ownVersion}`);
}

function checkDurability({ problems, synchronousCommit }: PostgresReport): Check {
  const name = "durability";
  const [problem] = problems;
  if (problem !== undefined) {
    const [found = "", ...fix] = problem.replace("the PostgreSQL server: ", "").split(": ");
    return { name, state: "fail", found, fix: fix.join(": ") };
  }
  if (synchronousCommit !== "off") return ok(name, `synchronous_commit is ${synchronousCommit}`);
  return ok(name, "synchronous_commit is off; Redrive turns it on for its own commits");
}

function checkTransactions({ oldestTransactionMs: ms }: PostgresReport): Check {
  const name = "transactions";
  const found = `the oldest transaction runs for ${formatDuration(ms)}`;
  if (ms <= MAX_TRANSACTION_MS) return ok(name, found);
  const fix = "end it: until then, no dead rows are removed (pg_stat_activity shows it)";
  return { name, state: "warn", found, fix };
}

function checkDeadRows({ deadRows, liveRows }: PostgresReport): Check {
  const name = "dead rows";
  const found = `${deadRows} dead and ${liveRows} live rows`;
  if (deadRows < MIN_DEAD_ROWS || deadRows < liveRows) return ok(name, found);
  const fix = "check that autovacuum runs, and that no old transaction holds it up";
  return { name, state: "warn", found, fix };
}

// Doctor redis: checks the servers of a Redis store, one line for each setting that keeps tasks
// safe.

type Server = RedisReport["servers"][number];

async function checkRedis(store: string): Promise<readonly Check[]> {
  const name = "store";
  try {
    const report = await inspectRedis(store);
    const [problem] = report.problems;
    const found = report.servers.map(({ address, version }) => `${address} (Redis ${version})`);
    const reached = `${found.join(", ")} can be reached`;
    const state = problem === undefined ? "ok" : "fail";
    return [
      {
        name,
        state,
        found: problem === undefined ? reached : beforeFix(problem),
        fix: fixOf(problem),
      },
      ...settingChecks(report),
      replicaCheck(report),
    ];
  } catch (error) {
    const found = `${storeName(store)}: ${(error as Error).message}`;
    return [{ name, state: "fail", found, fix: "start the server, or correct --store" }];
  }
}

/** A problem is a sentence, a colon and the repair. Addresses contain colons without a space. */
function beforeFix(problem: string): string {
  return problem.split(": ")[0] ?? problem;
}

function fixOf(problem: string | undefined): string {
  return problem?.split(": ").slice(1).join(": ") ?? "";
}

const SETTINGS = [
  ["appendonly", "appendonly", "CONFIG SET appendonly yes", ["yes"]],
  ["appendfsync", "appendfsync", "CONFIG SET appendfsync always", ["always"]],
  ["sync on rewrite", "noAppendfsyncOnRewrite", "CONFIG SET no-appendfsync-on-rewrite no", ["no"]],
  ["eviction", "maxmemoryPolicy", "CONFIG SET maxmemory-policy noeviction", ["noeviction"]],
] as const;

/** What is accepted as well with durability=relaxed. */
const RELAXED: Readonly<Record<string, readonly string[]>> = {
  appendfsync: ["everysec"],
  noAppendfsyncOnRewrite: ["yes"],
};

function settingChecks({ servers, durability }: RedisReport): readonly Check[] {
  return SETTINGS.map(([name, field, fix, good]) => {
    const values = [...new Set(servers.map(({ config }) => config?.[field] ?? "unknown"))];
    const accepted: readonly string[] =
      durability === "relaxed" ? [...good, ...(RELAXED[field] ?? [])] : good;
    const isGood = values.every((value) => accepted.includes(value));
    if (isGood) return { name, state: "ok", found: values.join(", "), fix: "" };
    const state = values.includes("unknown") ? "warn" : "fail";
    return { name, state, found: values.join(", "), fix };
  });
}

/** Without replicas, the loss of a server loses its tasks, also with a synced log. */
function replicaCheck({ servers, replicas }: RedisReport): Check {
  const name = "replicas";
  const fewest = Math.min(...servers.map((server: Server) => server.replicas));
  const found = `${fewest} connected, and a write waits for ${replicas}`;
  if (fewest < replicas) {
    return {
      name,
      state: "fail",
      found,
      fix: "connect more replicas, or lower replicas in --store",
    };
  }
  if (replicas > 0) return { name, state: "ok", found, fix: "" };
  const fix = "add replicas=1 to --store: without it, a failover may lose acknowledged tasks";
  return fewest > 0 ? { name, state: "warn", found, fix } : { name, state: "ok", found, fix: "" };
}

// Repair: `redrive doctor --repair` says what a store that is refused still has. With
// `--accept-loss` the store is used as it is.

interface RepairFlags {
  readonly store?: string;
  readonly acceptLoss?: boolean;
}

/** Exits with 1 if something is missing and was not accepted. */
export async function repair({ store, acceptLoss }: RepairFlags): Promise<Presentation> {
  const path = storeFile(store);
  if (acceptLoss) {
    const { report, kept } = await withFileErrors(() => acceptSqliteLoss(path));
    return {
      json: { ...report, accepted: true, kept },
      text: () => [
        ...reportLines(report),
        `accepted    the store starts without what is missing; the files as they were are ${kept}*`,
      ],
    };
  }
  const report = await withFileErrors(() => inspectSqliteFile(path));
  const isGood = report.loss === null && report.damage.length === 0;
  return {
    json: { ...report, accepted: false },
    text: () => [...reportLines(report), ...adviceLines(report)],
    exitCode: isGood ? OK : FAILED,
  };
}

function reportLines(report: FileReport): readonly string[] {
  const { file, loss, damage, commits, ledgerCommits, ledgerWrittenAt } = report;
  const now = systemClock.now();
  const newest = report.newestTaskAt;
  const ledger =
    ledgerCommits === null
      ? "no readable ledger"
      : `${formatInteger(ledgerCommits)} commits in the ledger`;
  const written = ledgerWrittenAt === null ? "" : `, written ${formatAgo(ledgerWrittenAt, now)}`;
  return [
    `store       ${file}`,
    `missing     ${loss ?? "nothing that the ledger knows"}`,
    ...damage.map((text) => `damaged     ${text}`),
    `commits     ${formatInteger(commits)} in the file, ${ledger}${written}`,
    `saved       ${formatCount(report.tasks, "task")}${newest === null ? "" : `, the newest created ${formatAgo(newest, now)}`}`,
  ];
}

function adviceLines({ loss, damage, file }: FileReport): readonly string[] {
  if (damage.length > 0) {
    return [`next        restore a backup: redrive restore BACKUP --store sqlite:${file} --force`];
  }
  if (loss === null) return ["next        nothing: the store can be used"];
  return [
    `next        put the missing files back, or restore a backup: redrive restore BACKUP --store sqlite:${file} --force`,
    `            or go on without what is missing: redrive doctor --repair --accept-loss --store sqlite:${file}`,
  ];
}
