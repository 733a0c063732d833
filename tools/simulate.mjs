/**
 * Simulate: runs the seeds of the simulation in processes of their own, one per share of the seeds. The
 * processes run a bundle: in a module of Vitest, each use of an imported name is a lookup, and a worker
 * of Vitest has the usual young generation.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { spawnAndCollect } from "./setup/command.mjs";
import { say, seconds } from "./setup/progress.mjs";
import { inRoot, root } from "./setup/root.mjs";

/**
 * A seed makes about 60 MB of garbage, and nearly all of it is young. In a larger young generation,
 * the collector runs less often and finds less to copy.
 */
export const SIMULATION_FLAGS = ["--max-semi-space-size=64"];

/** Ours first, as in `vitest.config.ts`. */
const conditions = ["redrive-source", "node"];

const BUNDLE = "share.mjs";

/** @typedef {{ isPassed: boolean, output: string }} ShareResult */

/**
 * Runs the seeds on all cores. Returns whether all of them passed. A process that fails prints the seed.
 * @param {number} seeds
 */
export async function simulateSeeds(seeds) {
  // The processes read it from their environment.
  process.env["REDRIVE_SEEDS"] = String(seeds);
  const shares = availableParallelism();
  say(`Simulating ${seeds} seeds in ${shares} processes`);
  const startMs = performance.now();
  const results = await inBundle((folder) =>
    Promise.all(Array.from({ length: shares }, (_, share) => runShare(folder, share, shares))),
  );
  for (const { output } of results) say(output);
  say(`  ended after ${seconds(performance.now() - startMs, 0)}`);
  return results.every(({ isPassed }) => isPassed);
}

/**
 * Runs one share of the seeds: every seed that leaves the remainder `share` when divided by `shares`.
 * @param {number} share
 * @param {number} shares
 * @returns {Promise<ShareResult>}
 */
export async function simulateShare(share, shares) {
  return await inBundle((folder) => runShare(folder, share, shares));
}

/**
 * @template T
 * @param {(folder: string) => Promise<T>} work
 */
async function inBundle(work) {
  const folder = mkdtempSync(join(tmpdir(), "redrive-simulation-"));
  try {
    await bundle(folder);
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** @param {string} folder */
async function bundle(folder) {
  // Only now: the packages may have been installed by this process.
  const { build } = await import("vite");
  await build({
    root,
    configFile: false,
    logLevel: "warn",
    resolve: { conditions },
    ssr: { noExternal: true, resolve: { conditions } },
    build: {
      ssr: inRoot("test", "simulation", "share-process.ts"),
      outDir: folder,
      target: "node20",
      minify: false,
      rolldownOptions: { output: { entryFileNames: BUNDLE } },
    },
  });
}

/**
 * @param {string} folder
 * @param {number} share
 * @param {number} shares
 * @returns {Promise<ShareResult>}
 */
async function runShare(folder, share, shares) {
  const args = [...SIMULATION_FLAGS, join(folder, BUNDLE), String(share), String(shares)];
  let output = "";
  const { code, problem } = await spawnAndCollect(
    { label: "", program: process.execPath, args },
    (text) => {
      output += text;
    },
  );
  return { isPassed: code === 0, output: `${output}${problem}`.trimEnd() };
}
