/**
 * Lock: lets only one process at a time run a part of the setup. A lock is a file with the id of its
 * holder, which touches it regularly. A holder that died, or did not touch it for a minute, loses it.
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
const STALE_MS = 60_000;
const POLL_MS = 100;

/**
 * Waits for the lock at `path` and runs `work` while holding it.
 * @template T
 * @param {string} path
 * @param {string} waitingFor printed if another process holds the lock
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withLock(path, waitingFor, work) {
  mkdirSync(dirname(path), { recursive: true });
  await acquire(path, waitingFor);
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
async function acquire(path, waitingFor) {
  if (tryAcquire(path)) return;
  const progress = startProgress(`Waiting for ${waitingFor} (process ${holderOf(path) ?? "?"})`);
  while (!tryAcquire(path)) await sleep(POLL_MS);
  progress.end("acquired");
}

/**
 * True if this process has the lock now. A link creates the file with its content, so no reader sees it empty.
 * @param {string} path
 */
function tryAcquire(path) {
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
 * Moves an abandoned lock away, and restores it if another process acquired it at that moment.
 * @param {string} path
 */
function dropIfAbandoned(path) {
  const holder = holderOf(path);
  if (holder === undefined || !isAbandoned(path, holder)) return;
  const moved = `${path}.${process.pid}.old`;
  try {
    renameSync(path, moved);
    if (holderOf(moved) !== holder) linkSync(moved, path);
  } catch {
    // Another process was faster; the next try sees the new state.
  }
  rmSync(moved, { force: true });
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
  return touchedAt !== undefined && Date.now() - touchedAt > STALE_MS;
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
    // The lock was lost after a long pause. The work continues, and its end checks the holder.
  }
}

/** @param {unknown} error */
function codeOf(error) {
  return /** @type {NodeJS.ErrnoException} */ (error).code;
}
