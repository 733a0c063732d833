/**
 * Checks: format, lint and the types of everything. `npm run check` adds the tidy rules, which `npm test`
 * runs as tests.
 */
import { nodeScript, spawnAndCollect } from "./setup/command.mjs";
import { say, seconds } from "./setup/progress.mjs";

/** @typedef {{ label: string, program: string, args: readonly string[] }} Check */

/** @type {readonly Check[]} */
export const STATIC_CHECKS = [
  { label: "format and lint", ...nodeScript("@biomejs/biome/bin/biome", ["check", "."]) },
  { label: "types of the packages", ...nodeScript("typescript/bin/tsc", ["-b"]) },
  { label: "types of the pages", ...nodeScript("typescript/bin/tsc", ["-p", "apps/web"]) },
  {
    label: "types of tests and tools",
    ...nodeScript("typescript/bin/tsc", ["-p", "tsconfig.tests.json"]),
  },
];

/**
 * Prints the result and time of each check, and the output of failed ones. Returns how many failed.
 * @param {readonly Check[]} checks
 */
export async function runChecks(checks) {
  let failed = 0;
  for (const check of checks) if (!(await passes(check))) failed++;
  return failed;
}

/** @param {Check} check */
async function passes(check) {
  const startMs = performance.now();
  let output = "";
  const { code, problem } = await spawnAndCollect(check, (text) => {
    output += text;
  });
  const verdict = code === 0 ? "ok" : "failed";
  say(`${verdict.padEnd(7)} ${check.label}, ${seconds(performance.now() - startMs, 1)}`);
  if (code !== 0) say(`${output}${problem}`.trimEnd());
  return code === 0;
}
