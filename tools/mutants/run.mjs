/**
 * Run: runs tests with a mutant, or without one, in their own Vitest and temporary folder. A run that
 * takes too long is ended and counts as failed: some mutants make a loop endless.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { nodeScript } from "../setup/command.mjs";
import { root } from "../setup/root.mjs";
import { LOADED_VARIABLE, MUTANT_VARIABLE } from "./mutant.mjs";

/** Ten times what the slowest test, and the slowest tests of a folder, take on an idle machine. */
const TEST_LIMIT_MS = 60_000;
const LIMIT_MS = 300_000;

/** Children that the end of this process must end. */
const running = new Set();
for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"])) {
  process.once(signal, () => {
    for (const child of running) endGroup(child, signal);
    process.exit(1);
  });
}

/**
 * @typedef {object} RunResult
 * @property {boolean} passed
 * @property {boolean} loaded whether a test loaded the changed file
 * @property {string} failure the first failing test, or why there is none
 */

/**
 * @param {readonly string[]} tests
 * @param {import("./mutant.mjs").ChangedFile} [changed] a file with a mutant
 * @returns {Promise<RunResult>}
 */
export async function runTests(tests, changed) {
  const folder = mkdtempSync(join(tmpdir(), "redrive-mutant-"));
  // PostgreSQL refuses to run as root, so another user must be able to reach its folder.
  chmodSync(folder, 0o711);
  const [report, loaded] = [join(folder, "report.json"), join(folder, "loaded")];
  try {
    const limits = ["--bail=1", `--testTimeout=${TEST_LIMIT_MS}`];
    const args = ["run", ...limits, "--reporter=json", `--outputFile=${report}`, ...tests];
    const code = await vitest(args, {
      TMPDIR: folder,
      ...(changed && { [MUTANT_VARIABLE]: JSON.stringify(changed), [LOADED_VARIABLE]: loaded }),
    });
    const failure = code === null ? "took too long" : failureIn(report);
    return { passed: code === 0, loaded: existsSync(loaded), failure };
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

/**
 * Returns the exit code, or null if the run was ended.
 * @param {readonly string[]} args
 * @param {Record<string, string>} env
 * @returns {Promise<number | null>}
 */
async function vitest(args, env) {
  const { program, args: allArgs } = nodeScript("vitest/vitest.mjs", args);
  const child = spawn(program, allArgs, {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: "ignore",
    detached: true,
  });
  running.add(child);
  const limit = setTimeout(() => endGroup(child, "SIGKILL"), LIMIT_MS);
  const [code] = await once(child, "exit");
  clearTimeout(limit);
  running.delete(child);
  return code;
}

/**
 * Ends Vitest and its workers. A worker in an endless loop would outlive Vitest.
 * @param {import("node:child_process").ChildProcess} child
 * @param {NodeJS.Signals} signal
 */
function endGroup(child, signal) {
  if (child.pid !== undefined) process.kill(-child.pid, signal);
}

/** @param {string} report */
function failureIn(report) {
  if (!existsSync(report)) return "Vitest failed without a report";
  /** @type {{ testResults: { name: string, status: string, assertionResults: { fullName: string, status: string }[] }[] }} */
  const { testResults } = JSON.parse(readFileSync(report, "utf8"));
  for (const { name, status, assertionResults } of testResults) {
    const test = assertionResults.find((one) => one.status === "failed");
    if (test !== undefined) return `${relative(root, name)}: ${test.fullName}`;
    if (status === "failed") return `${relative(root, name)} could not be loaded`;
  }
  return "no test failed, but Vitest did";
}
