/**
 * Simulate: runs the seeds of the simulation on all cores, one process per core. The processes run a
 * bundle: in a module of Vitest, each use of an imported name is a lookup, which costs 7%.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
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

/**
 * Returns whether all seeds passed. A process that fails prints the seed.
 * @param {number} seeds
 */
export async function simulateSeeds(seeds) {
  const folder = mkdtempSync(join(tmpdir(), "redrive-simulation-"));
  const startMs = performance.now();
  try {
    await bundle(folder);
    const shares = availableParallelism();
    say(`Simulating ${seeds} seeds in ${shares} processes`);
    const results = await Promise.all(
      Array.from({ length: shares }, (_, share) => runShare(folder, share, shares)),
    );
    say(`  ended after ${seconds(performance.now() - startMs, 0)}`);
    return results.every((isPassed) => isPassed);
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
 */
async function runShare(folder, share, shares) {
  const args = [...SIMULATION_FLAGS, join(folder, BUNDLE), String(share), String(shares)];
  const child = spawn(process.execPath, args, {
    cwd: root,
    stdio: ["ignore", "inherit", "inherit"],
  });
  const end = () => child.kill();
  process.once("exit", end);
  const [code] = await once(child, "exit");
  process.off("exit", end);
  return code === 0;
}
