/**
 * Vitest: one project per suite of `tools/suites.mjs`. Packages resolve by the `redrive-source` condition,
 * so tests run on sources with no build in between. In `npm test`, suites that use whole packages run on
 * the build: Node loads it in half of the time, and runs it up to twice as fast.
 */
import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { mutantPlugins } from "./tools/mutants/plugin.mjs";
import { SlowestFirst } from "./tools/slowest-first.mjs";
import { globsOf, isOnBuild, suites } from "./tools/suites.mjs";

/** What Node itself would take. Bundlers have "module", whose files Node cannot load. */
const NODE_CONDITIONS = ["node", "development|production"];
const SOURCE_CONDITIONS = ["redrive-source", ...NODE_CONDITIONS];

/** Two more than there are cores: many tests wait for a server, a browser or a lease. */
const WORKERS = availableParallelism() + 2;

/**
 * When a test is taken to hang. No test shows by this that something is quick: on a machine that
 * others keep busy, what takes five seconds has taken a minute.
 */
const HANG_MS = 180_000;

export default defineConfig({
  plugins: mutantPlugins(),
  test: {
    maxWorkers: WORKERS,
    restoreMocks: true,
    unstubGlobals: true,
    sequence: { sequencer: SlowestFirst },
    coverage: {
      provider: "v8",
      include: ["core/src/**/*.ts", "faces/*/src/**/*.ts"],
      exclude: ["**/*.test.ts", "**/*.testing.ts"],
      thresholds: {
        "core/src/**/*.ts": { lines: 95, functions: 95, statements: 95, branches: 90 },
      },
    },
    projects: suites.map((suite) => ({
      extends: true,
      ...resolution(isOnBuild(suite) ? NODE_CONDITIONS : SOURCE_CONDITIONS),
      test: {
        name: suite.name,
        ...globsOf(suite),
        // Node itself loads what is built.
        server: { deps: { external: [/\/dist\//u] } },
        setupFiles: ["./tools/end-with-vitest.mjs", "./tools/properties.mjs"],
        isolate: suite.isolated,
        testTimeout: HANG_MS,
        hookTimeout: HANG_MS,
      },
    })),
  },
});

/** How the tests of a suite find packages. */
function resolution(conditions: string[]) {
  return {
    resolve: { conditions },
    ssr: { resolve: { conditions, externalConditions: ["node"] } },
  };
}
