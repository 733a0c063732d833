/**
 * Guard: a small process between a test and what it starts (a server, a temporary folder). It
 * lives as long as its standard input is open, and the kernel closes that however its parent ends,
 * `kill -9` included. Then it stops the server, ends the processes it was told of, and removes the
 * folder. Run as `node tools/guard.mjs '<spec as JSON>'`.
 */
import { spawn } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * @typedef {object} GuardSpec
 * @property {string} folder removed at the end
 * @property {string} [program] the server; none to guard a folder only
 * @property {readonly string[]} [args]
 * @property {NodeJS.Signals} [stopSignal] asks the server to stop; default SIGTERM
 * @property {number} [uid] the user to run it as, when this one is root
 * @property {number} [gid]
 * @property {number} [patienceMs] how long it may take before it is killed; default 5000
 * @property {string} [inner] prefix of folders that have guards of their own, waited for
 */

const PATIENCE_MS = 5_000;
const INNER_PATIENCE_MS = 10_000;
const REMOVAL_PATIENCE_MS = 15_000;
const POLL_MS = 50;

/** @type {GuardSpec} */
const spec = JSON.parse(process.argv[2] ?? "{}");
/** Processes to end with the folder: a line `123` on standard input adds one, `-123` takes it out. */
/** @type {Set<number>} */
const watched = new Set();

// A terminal's Ctrl-C goes to everyone; the guard must outlive its parent to clean up after it.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => {});
// Its parent's end of these pipes may be gone; what is written then is for nobody.
process.stdout.on("error", () => {});
process.stderr.on("error", () => {});

const server = spec.program === undefined ? undefined : startServer(spec.program);
createInterface(process.stdin)
  .on("line", (line) => watch(Number(line)))
  .on("close", () => void cleanUp());

/** @param {number} pid negative to forget it */
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

/** Stops everything, hard when asking did not help; the server's own end then ends this process. */
async function cleanUp() {
  const pids = [...watched, ...(server?.pid === undefined ? [] : [server.pid])];
  for (const pid of pids) send(pid, spec.stopSignal ?? "SIGTERM");
  if (!(await within(spec.patienceMs ?? PATIENCE_MS, () => pids.every((pid) => !isAlive(pid))))) {
    for (const pid of pids) send(pid, "SIGKILL");
  }
  if (server !== undefined) return;
  await within(INNER_PATIENCE_MS, () => innerFolders() === 0);
  await removeFolder();
  process.exit(0);
}

function innerFolders() {
  const prefix = spec.inner;
  if (prefix === undefined) return 0;
  return readdirSync(spec.folder).filter((name) => name.startsWith(prefix)).length;
}

/** Again and again for a while: a browser that is closing still writes to its profile. */
async function removeFolder() {
  await within(REMOVAL_PATIENCE_MS, () => {
    try {
      rmSync(spec.folder, { recursive: true, force: true });
      return true;
    } catch {
      return false;
    }
  });
}

/**
 * True as soon as `holds`, false when it still does not after `ms`.
 * @param {number} ms
 * @param {() => boolean} holds
 */
async function within(ms, holds) {
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
