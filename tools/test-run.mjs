/**
 * Test run: one temporary folder for everything a run of the tests writes, and Vitest in it. A
 * guard watches this process: if it is killed, Vitest is ended and the folder removed all the same.
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

/** Folders of this name have a guard of their own, which this run's guard lets finish first. */
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
  // PostgreSQL refuses to run as root; as another user it must be able to reach its own folder.
  chmodSync(folder, 0o711);
  const guard = startGuard(folder);
  try {
    return await work({ folder, vitest: (args, env) => runVitest(guard, folder, args, env) });
  } finally {
    guard.stdin.end();
    await once(guard, "exit");
  }
}

/** Without a blank in its path where there is such a one: tests spell command lines with it. */
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
 * Runs Vitest with this terminal and returns its exit code. A signal ends Vitest, not this process,
 * which still has to clean up and to print the closing line.
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
  if (signal !== null) say(`Vitest was ended by ${signal} before it was done.`);
  guard.stdin.write(`-${child.pid}\n`);
  return code ?? 1;
}
