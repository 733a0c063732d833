/**
 * `npm test`: from a fresh clone to one line `N passed, N failed`. Takes names of suites, files and
 * Vitest's own options; with none it runs every suite.
 */
import { existsSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { meetNeeds } from "./needs.mjs";
import { SetupFailed } from "./setup/command.mjs";
import { installPackages } from "./setup/install.mjs";
import { requireNode } from "./setup/node-version.mjs";
import { say } from "./setup/progress.mjs";
import { root } from "./setup/root.mjs";
import { filesOf, LEFT_OUT_VARIABLE, suites } from "./suites.mjs";
import { withRunFolder } from "./test-run.mjs";

/** @typedef {import("./tally-reporter.mjs").Tally} Tally */
/** @typedef {import("./needs.mjs").Missing} Missing */

/** Options of Vitest whose value is a test's name rather than a file's. */
const NAME_OPTIONS = new Set(["-t", "--testNamePattern"]);

/** Vitest takes it for a mistake when nothing is left to run; here it is not. */
const ALL_LEFT_OUT = { code: 0, tally: { passed: 0, failed: 0, skipped: 0 } };

/** Nothing ran, and that is a failure. */
const NOTHING_RUN = { passed: 0, failed: 1, skipped: 0 };

requireNode();
const selection = select(process.argv.slice(2));
/** @type {readonly Missing[]} */
let missing = [];
try {
  await installPackages();
  missing = await meetNeeds(selectedFiles());
  const isAllLeftOut = missing.length > 0 && leftOutFiles().length === selectedFiles().length;
  const { code, tally } = isAllLeftOut ? ALL_LEFT_OUT : await runTests();
  close(code, tally);
} catch (error) {
  if (!(error instanceof SetupFailed)) throw error;
  say(error.message);
  close(1, NOTHING_RUN);
}

/**
 * Words that name a suite select it; the rest is for Vitest: files, or options of its own.
 * @param {readonly string[]} words
 */
function select(words) {
  const names = suites.map((suite) => suite.name);
  return {
    suites: words.filter((word) => names.includes(word)),
    rest: words.filter((word) => !names.includes(word)),
  };
}

/**
 * The test files that will run; the needs of others are none of ours. Vitest takes a word as part
 * of a path, so a word that is part of no path is an option's value, and narrows nothing.
 */
function selectedFiles() {
  const chosen = selection.suites.length === 0 ? suites.map(({ name }) => name) : selection.suites;
  const files = suites.filter(({ name }) => chosen.includes(name)).flatMap(filesOf);
  const words = selection.rest.filter(
    (word, i) => !word.startsWith("-") && !NAME_OPTIONS.has(selection.rest[i - 1] ?? ""),
  );
  const isNamed = (/** @type {string} */ file) =>
    words.some((word) => file.includes(word.replace(/^\.\//u, "")));
  const named = files.filter(isNamed);
  return named.length === 0 ? files : named;
}

/** @returns {Promise<{ code: number, tally: Tally }>} */
async function runTests() {
  return await withRunFolder(async (run) => {
    const tallyFile = join(run.folder, "tally.json");
    const code = await run.vitest(vitestArgs(), {
      REDRIVE_TALLY_FILE: tallyFile,
      [LEFT_OUT_VARIABLE]: leftOutFiles().join("\n"),
    });
    return { code, tally: readTally(tallyFile) };
  });
}

/** Each once, though it may lack several things. */
function leftOutFiles() {
  return [...new Set(missing.flatMap(({ files }) => files))].map((file) => relative(root, file));
}

function vitestArgs() {
  return [
    "run",
    "--reporter=default",
    "--reporter=./tools/tally-reporter.mjs",
    ...selection.suites.map((name) => `--project=${name}`),
    ...selection.rest,
  ];
}

/**
 * @param {string} path
 * @returns {Tally}
 */
function readTally(path) {
  return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : NOTHING_RUN;
}

/**
 * Says what was left out, then the one line that counts, and sets the exit code to agree with it.
 * @param {number} code
 * @param {Tally} tally
 */
function close(code, tally) {
  const isStrict = ["true", "1"].includes(process.env["CI"] ?? "");
  const leftOut = leftOutFiles().length;
  for (const { need, command, files } of missing) {
    say(`${isStrict ? "Failed" : "Skipped"} for want of ${need} (install it with: ${command}):`);
    for (const file of files) say(`  ${relative(root, file)}`);
  }
  const skipped = tally.skipped + (isStrict ? 0 : leftOut);
  // Vitest can fail without a failing test: a coverage threshold, a crash of its own.
  const failed = Math.max(tally.failed + (isStrict ? leftOut : 0), code === 0 ? 0 : 1);
  process.exitCode = failed === 0 ? 0 : 1;
  say(`${tally.passed} passed, ${failed} failed${skipped === 0 ? "" : `, ${skipped} skipped`}`);
}
