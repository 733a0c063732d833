/**
 * `npm run check`: checks format, lint, types and tidy rules. Prints the result and time of each
 * check and the output of failed ones, and exits with 1 if any failed.
 */
import { nodeScript, spawnAndCollect } from "./setup/command.mjs";
import { exitOnFailure } from "./setup/failure.mjs";
import { installPackages } from "./setup/install.mjs";
import { requireNode } from "./setup/node-version.mjs";
import { say, seconds } from "./setup/progress.mjs";

/** @typedef {{ label: string, program: string, args: readonly string[] }} Step */

/** @type {readonly Step[]} */
const STEPS = [
  { label: "format and lint", ...nodeScript("@biomejs/biome/bin/biome", ["check", "."]) },
  { label: "types of the packages", ...nodeScript("typescript/bin/tsc", ["-b"]) },
  { label: "types of the pages", ...nodeScript("typescript/bin/tsc", ["-p", "apps/web"]) },
  {
    label: "types of tests and tools",
    ...nodeScript("typescript/bin/tsc", ["-p", "tsconfig.tests.json"]),
  },
  { label: "tidy rules", ...nodeScript("vitest/vitest.mjs", ["run", "tools/tidy"]) },
];

requireNode();
await exitOnFailure(installPackages);
for (const step of STEPS) {
  if (!(await passes(step))) process.exitCode = 1;
}

/** @param {Step} step */
async function passes(step) {
  const startMs = performance.now();
  let output = "";
  const { code, problem } = await spawnAndCollect(step, (text) => {
    output += text;
  });
  const verdict = code === 0 ? "ok" : "failed";
  say(`${verdict.padEnd(7)} ${step.label}, ${seconds(performance.now() - startMs, 1)}`);
  if (code !== 0) say(`${output}${problem}`.trimEnd());
  return code === 0;
}
