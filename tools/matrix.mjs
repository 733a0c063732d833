/**
 * `npm run test:matrix`: runs the unit and browser suites on the newer Node versions that we support,
 * which npm installs, and prints a table. `npm test` covers the current Node.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { exitOnFailure } from "./setup/failure.mjs";
import { installPackages } from "./setup/install.mjs";
import { requireNode } from "./setup/node-version.mjs";
import { nodeProgram } from "./setup/other-runtime.mjs";
import { say } from "./setup/progress.mjs";
import { inRoot } from "./setup/root.mjs";

const MAJORS = [22, 24];
const SUITES = ["unit", "browser"];

requireNode();
await exitOnFailure(installPackages);
/** @type {{ version: string, closing: string, code: number }[]} */
const rows = [];
for (const major of MAJORS) {
  const program = await exitOnFailure(() => nodeProgram(major));
  const version = (await collect(program, ["--version"], false)).output.trim();
  say(`\nNode ${version}: ${SUITES.join(" and ")} suites`);
  const args = process.argv.length > 2 ? process.argv.slice(2) : SUITES;
  const { code, output } = await collect(program, [inRoot("tools", "test.mjs"), ...args], true);
  rows.push({ version, closing: output.trimEnd().split("\n").at(-1) ?? "", code });
}
say("");
for (const { version, closing, code } of rows) {
  say(`${code === 0 ? "ok    " : "failed"}  Node ${version.padEnd(10)} ${closing}`);
}
process.exitCode = rows.every(({ code }) => code === 0) ? 0 : 1;

/**
 * Runs a program and returns its output. If `isShown`, also shows it.
 * @param {string} program
 * @param {readonly string[]} args
 * @param {boolean} isShown
 */
async function collect(program, args, isShown) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    output += text;
    if (isShown) process.stdout.write(text);
  });
  const [code] = await once(child, "close");
  return { output, code: code ?? 1 };
}
