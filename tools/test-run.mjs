/**
 * Test run: runs Vitest with one temporary folder for everything that the tests write. If this
 * process is killed, a guard ends Vitest and removes the folder.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nodeScript } from "./setup/command.mjs";
import { whenOrphaned } from "./setup/orphan.mjs";
import { say } from "./setup/progress.mjs";
import { inRoot, root } from "./setup/root.mjs";

/** Folders with this prefix have their own guard, which finishes before the guard of this run. */
export const GUARDED_PREFIX = "redrive-guarded-";

/**
 * @typedef {object} TestRun
 * @property {string} folder
 * @property {(args: readonly string[], env: Record<string, string>) => Promise<number>} vitest
 */

/**
 * @template T
 * @param {(run: TestRun) => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withRunFolder(work) {
  const folder = mkdtempSync(join(temporaryFolder(), "redrive-test-"));
  // PostgreSQL refuses to run as root, so another user must be able to reach its folder.
  chmodSync(folder, 0o711);
  const guard = startGuard(folder);
  try {
    return await work({ folder, vitest: (args, env) => runVitest(guard, folder, args, env) });
  } finally {
    guard.stdin.end();
    await once(guard, "exit");
  }
}

/** Prefers a path without spaces, because tests use it in command lines. */
function temporaryFolder() {
  const folders = [tmpdir(), "/tmp", "/var/tmp"];
  return folders.find((folder) => !/\s/u.test(folder) && existsSync(folder)) ?? tmpdir();
}

/** @param {string} folder */
function startGuard(folder) {
  const spec = JSON.stringify({ folder, inner: GUARDED_PREFIX });
  return spawn(process.execPath, [inRoot("tools", "guard.mjs"), spec], {
    detached: true,
    stdio: ["pipe", "ignore", "inherit"],
  });
}

/**
 * Runs Vitest in this terminal and returns its exit code. A signal ends Vitest, but not this process,
 * which still cleans up and prints the last line.
 * @param {ReturnType<typeof startGuard>} guard
 * @param {string} folder
 * @param {readonly string[]} args
 * @param {Record<string, string>} env
 * @returns {Promise<number>}
 */
async function runVitest(guard, folder, args, env) {
  const { program, args: allArgs } = nodeScript("vitest/vitest.mjs", args);
  const child = spawn(program, allArgs, {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, ...env, TMPDIR: folder },
  });
  guard.stdin.write(`${child.pid}\n`);
  for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"])) {
    process.on(signal, () => child.kill(signal));
  }
  whenOrphaned(() => child.kill("SIGTERM"));
  const [code, signal] = await once(child, "exit");
  if (signal !== null) say(`${signal} ended Vitest before it was done.`);
  guard.stdin.write(`-${child.pid}\n`);
  return code ?? 1;
}
