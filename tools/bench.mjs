/**
 * `npm run bench [name ...] [--node 24] [--json] [--against <checkout>]`: installs the packages of
 * bench/, builds, and runs `bench/<name>.bench.mjs`, or all benchmarks one after the other.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { buildPackages } from "./setup/build.mjs";
import { exitOnFailure } from "./setup/failure.mjs";
import { installIn, installPackages } from "./setup/install.mjs";
import { requireNode } from "./setup/node-version.mjs";
import { nodeProgram } from "./setup/other-runtime.mjs";
import { say } from "./setup/progress.mjs";
import { inRoot } from "./setup/root.mjs";

const SUFFIX = ".bench.mjs";

/** The young generation is large enough that no garbage collection disturbs the counting of bytes. */
const NODE_FLAGS = ["--expose-gc", "--min-semi-space-size=64", "--max-semi-space-size=128"];

requireNode();
const { names, major, options } = parse(process.argv.slice(2));
const chosen = selectBenchmarks(names);
const program = await exitOnFailure(async () => {
  await installPackages();
  await installIn(inRoot("bench"), "Installing the libraries to compare with (npm ci in bench/)");
  await buildPackages();
  return major === undefined ? process.execPath : await nodeProgram(major);
});
for (const name of chosen) {
  const args = [...NODE_FLAGS, inRoot("bench", `${name}${SUFFIX}`), ...options];
  const [code] = await once(spawn(program, args, { stdio: "inherit" }), "exit");
  if (code !== 0) process.exitCode = 1;
}

/** @param {readonly string[]} args */
function parse(args) {
  const [node, afterNode] = takeOption(args, "--node");
  const [against, others] = takeOption(afterNode, "--against");
  return {
    names: others.filter((arg) => !arg.startsWith("-")),
    options: [
      ...others.filter((arg) => arg.startsWith("-")),
      ...(against === undefined ? [] : ["--against", against]),
    ],
    major: node === undefined ? undefined : Number(node),
  };
}

/**
 * Returns the value of an option, and the arguments without the option and its value.
 * @param {readonly string[]} args
 * @param {string} name
 * @returns {[string | undefined, readonly string[]]}
 */
function takeOption(args, name) {
  const at = args.indexOf(name);
  if (at < 0) return [undefined, args];
  return [args[at + 1], args.filter((_, index) => index !== at && index !== at + 1)];
}

/**
 * Returns the requested benchmarks, or all. Exits with 2 and a list if a name is unknown.
 * @param {readonly string[]} requested
 */
function selectBenchmarks(requested) {
  const all = readdirSync(inRoot("bench"))
    .filter((file) => file.endsWith(SUFFIX))
    .map((file) => file.slice(0, -SUFFIX.length));
  const unknown = requested.find((name) => !all.includes(name));
  if (unknown === undefined) {
    if (all.length === 0) say("bench/ has no benchmarks yet (files <name>.bench.mjs)");
    return requested.length === 0 ? all : requested;
  }
  process.stderr.write(`unknown benchmark "${unknown}"; available: ${all.join(", ") || "none"}\n`);
  process.exit(2);
}
