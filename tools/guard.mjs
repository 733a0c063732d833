/**
 * Guard: a process that cleans up after a test, even if the test is killed with `kill -9`. It waits
 * until its standard input closes, which the kernel does when the parent ends. Then it stops the
 * server, ends the registered processes and removes the folder. Usage: `node tools/guard.mjs
 * '<spec as JSON>'`.
 */
import { spawn } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * @typedef {object} GuardSpec
 * @property {string} folder removed at the end
 * @property {string} [program] the server; omit it to guard only a folder
 * @property {readonly string[]} [args]
 * @property {NodeJS.Signals} [stopSignal] stops the server; default SIGTERM
 * @property {number} [uid] the user to run the server as, if this process runs as root
 * @property {number} [gid]
 * @property {number} [patienceMs] time to stop before the server is killed; default 5000
 * @property {string} [inner] prefix of folders that have their own guards, which finish first
 */

const STOP_TIMEOUT_MS = 5_000;
const INNER_TIMEOUT_MS = 10_000;
const REMOVAL_TIMEOUT_MS = 15_000;
const POLL_MS = 50;

/** @type {GuardSpec} */
const spec = JSON.parse(process.argv[2] ?? "{}");
/** Processes to end at cleanup. A line `123` on standard input adds one, and `-123` removes it. */
/** @type {Set<number>} */
const watched = new Set();

// Ctrl-C in a terminal signals every process, but the guard must outlive its parent to clean up.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => {});
// The parent's end of these pipes may be closed; the output is then lost.
process.stdout.on("error", () => {});
process.stderr.on("error", () => {});

const server = spec.program === undefined ? undefined : startServer(spec.program);
createInterface(process.stdin)
  .on("line", (line) => watch(Number(line)))
  .on("close", () => void cleanUp());

/** @param {number} pid negative to remove it */
function watch(pid) {
  if (pid > 0) watched.add(pid);
  else watched.delete(-pid);
}

/** @param {string} program */
function startServer(program) {
  const child = spawn(program, spec.args ?? [], {
    cwd: spec.folder,
    stdio: ["ignore", "inherit", "inherit"],
    ...(spec.uid === undefined ? {} : { uid: spec.uid }),
    ...(spec.gid === undefined ? {} : { gid: spec.gid }),
  });
  child.on("error", (error) => process.stderr.write(`${error.message}\n`));
  child.on("close", (code) => void removeFolder().then(() => process.exit(code ?? 1)));
  return child;
}

/** Stops all processes, and kills those that do not stop. The end of the server ends this process. */
async function cleanUp() {
  const pids = [...watched, ...(server?.pid === undefined ? [] : [server.pid])];
  for (const pid of pids) send(pid, spec.stopSignal ?? "SIGTERM");
  if (
    !(await becomesTrue(spec.patienceMs ?? STOP_TIMEOUT_MS, () =>
      pids.every((pid) => !isAlive(pid)),
    ))
  ) {
    for (const pid of pids) send(pid, "SIGKILL");
  }
  if (server !== undefined) return;
  await becomesTrue(INNER_TIMEOUT_MS, () => innerFolders() === 0);
  await removeFolder();
  process.exit(0);
}

function innerFolders() {
  const prefix = spec.inner;
  if (prefix === undefined) return 0;
  return readdirSync(spec.folder).filter((name) => name.startsWith(prefix)).length;
}

/** Repeats for a while, because a closing browser still writes to its profile. */
async function removeFolder() {
  await becomesTrue(REMOVAL_TIMEOUT_MS, () => {
    try {
      rmSync(spec.folder, { recursive: true, force: true });
      return true;
    } catch {
      return false;
    }
  });
}

/**
 * Resolves to true when `holds` is true, or to false after `ms`.
 * @param {number} ms
 * @param {() => boolean} holds
 */
async function becomesTrue(ms, holds) {
  const endMs = performance.now() + ms;
  while (!holds()) {
    if (performance.now() > endMs) return false;
    await sleep(POLL_MS);
  }
  return true;
}

/** @param {number} pid */
function isAlive(pid) {
  return send(pid, 0);
}

/**
 * @param {number} pid
 * @param {NodeJS.Signals | 0} signal
 */
function send(pid, signal) {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}
