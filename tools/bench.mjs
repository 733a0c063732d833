/**
 * `npm run bench [name ...] [--node 24] [--json] [--against <checkout>]`: sets up bench/ (its peers are packages of its
 * own), builds, and runs `bench/<name>.bench.mjs`, or all of them one after the other.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { buildPackages } from "./setup/build.mjs";
import { exitOnFailure } from "./setup/failure.mjs";
import { installIn, installPackages } from "./setup/install.mjs";
import { requireNode } from "./setup/node-version.mjs";
import { nodeOf } from "./setup/other-node.mjs";
import { say } from "./setup/progress.mjs";
import { inRoot } from "./setup/root.mjs";

const SUFFIX = ".bench.mjs";

/** A young generation large enough that counting bytes meets no collection. */
const NODE_FLAGS = ["--expose-gc", "--min-semi-space-size=64", "--max-semi-space-size=128"];

requireNode();
const { names, major, options } = parse(process.argv.slice(2));
const chosen = selected(names);
const program = await exitOnFailure(async () => {
  await installPackages();
  await installIn(inRoot("bench"), "Installing the peers to compare with (npm ci in bench/)");
  await buildPackages();
  return major === undefined ? process.execPath : await nodeOf(major);
});
for (const name of chosen) {
  const args = [...NODE_FLAGS, inRoot("bench", `${name}${SUFFIX}`), ...options];
  const [code] = await once(spawn(program, args, { stdio: "inherit" }), "exit");
  if (code !== 0) process.exitCode = 1;
}

/** @param {readonly string[]} words */
function parse(words) {
  const [node, afterNode] = takeOption(words, "--node");
  const [against, others] = takeOption(afterNode, "--against");
  return {
    names: others.filter((word) => !word.startsWith("-")),
    options: [
      ...others.filter((word) => word.startsWith("-")),
      ...(against === undefined ? [] : ["--against", against]),
    ],
    major: node === undefined ? undefined : Number(node),
  };
}

/**
 * An option's value, and the words without both.
 * @param {readonly string[]} words
 * @param {string} name
 * @returns {[string | undefined, readonly string[]]}
 */
function takeOption(words, name) {
  const at = words.indexOf(name);
  if (at < 0) return [undefined, words];
  return [words[at + 1], words.filter((_, index) => index !== at && index !== at + 1)];
}

/**
 * The benchmarks asked for, or all. Ends with exit code 2 and the list when a name is unknown.
 * @param {readonly string[]} asked
 */
function selected(asked) {
  const all = readdirSync(inRoot("bench"))
    .filter((file) => file.endsWith(SUFFIX))
    .map((file) => file.slice(0, -SUFFIX.length));
  const unknown = asked.find((name) => !all.includes(name));
  if (unknown === undefined) {
    if (all.length === 0) say("bench/ has no benchmark yet (a file <name>.bench.mjs)");
    return asked.length === 0 ? all : asked;
  }
  process.stderr.write(`no benchmark "${unknown}"; there are: ${all.join(", ") || "none"}\n`);
  process.exit(2);
}
