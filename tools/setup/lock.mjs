/**
 * Lock: one process at a time does a piece of set-up. A lock is a file that names its holder and is
 * touched while held; a holder that died, or went silent for a minute, loses it.
 */
import {
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { startProgress } from "./progress.mjs";

const HEARTBEAT_MS = 5_000;
const SILENT_MS = 60_000;
const POLL_MS = 100;

/**
 * Runs `work` while holding the lock at `path`, waiting for it first if need be.
 * @template T
 * @param {string} path
 * @param {string} waitingFor said to the reader when the lock is taken
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withLock(path, waitingFor, work) {
  mkdirSync(dirname(path), { recursive: true });
  await take(path, waitingFor);
  const heartbeat = setInterval(() => touch(path), HEARTBEAT_MS);
  try {
    return await work();
  } finally {
    clearInterval(heartbeat);
    if (holderOf(path) === process.pid) rmSync(path, { force: true });
  }
}

/**
 * @param {string} path
 * @param {string} waitingFor
 */
async function take(path, waitingFor) {
  if (tryTake(path)) return;
  const progress = startProgress(`Waiting for ${waitingFor} (process ${holderOf(path) ?? "?"})`);
  while (!tryTake(path)) await sleep(POLL_MS);
  progress.end("over");
}

/**
 * True once the lock is ours. The file appears by a link, whole, so no reader sees it empty.
 * @param {string} path
 */
function tryTake(path) {
  dropIfAbandoned(path);
  const own = `${path}.${process.pid}`;
  writeFileSync(own, String(process.pid));
  try {
    linkSync(own, path);
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  } finally {
    rmSync(own, { force: true });
  }
}

/**
 * Moves an abandoned lock aside; puts it back if a new holder had taken it in that instant.
 * @param {string} path
 */
function dropIfAbandoned(path) {
  const holder = holderOf(path);
  if (holder === undefined || !isAbandoned(path, holder)) return;
  const aside = `${path}.${process.pid}.old`;
  try {
    renameSync(path, aside);
    if (holderOf(aside) !== holder) linkSync(aside, path);
  } catch {
    // Someone else was faster; the next try sees what they left.
  }
  rmSync(aside, { force: true });
}

/**
 * @param {string} path
 * @param {number} holder
 */
function isAbandoned(path, holder) {
  try {
    process.kill(holder, 0);
  } catch (error) {
    if (codeOf(error) === "ESRCH") return true;
  }
  const touchedAt = statSync(path, { throwIfNoEntry: false })?.mtimeMs;
  return touchedAt !== undefined && Date.now() - touchedAt > SILENT_MS;
}

/**
 * @param {string} path
 * @returns {number | undefined}
 */
function holderOf(path) {
  try {
    return Number(readFileSync(path, "utf8"));
  } catch {
    return undefined;
  }
}

/** @param {string} path */
function touch(path) {
  const now = new Date();
  try {
    utimesSync(path, now, now);
  } catch {
    // Taken away from us after a long silence; the work goes on and its end checks the holder.
  }
}

/** @param {unknown} error */
function codeOf(error) {
  return /** @type {NodeJS.ErrnoException} */ (error).code;
}
