/**
 * Needs: what a test file may ask for beyond npm packages, in a line `// needs: redis, chromium`
 * near its top. A need is met only when a file of the selected suites declares it: system packages
 * are installed when we are root on a machine with apt-get; elsewhere the files that need a missing
 * one are left out, and the reader is told the command that would bring it.
 */
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { buildPackages } from "./setup/build.mjs";
import { findProgram, runCommand, SetupFailed } from "./setup/command.mjs";
import { withLock } from "./setup/lock.mjs";
import { say } from "./setup/progress.mjs";

/** Needs that a system package meets: the program to look for, under all its names. */
export const systemPrograms = {
  redis: { programs: ["redis-server"], package: "redis-server" },
  chromium: {
    programs: ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"],
    package: "chromium",
  },
  strace: { programs: ["strace"], package: "strace" },
};

/** Needs that come with the clone: `postgres` is an npm package, `build` is `npm run build`. */
const ownNeeds = ["postgres", "build"];

/** How many lines from the top of a file the `needs` line is looked for in. */
const DECLARATION_LINES = 12;

/** apt's own wait for the lock of its database, in seconds. */
const APT_LOCK_SECONDS = 600;

/** apt's own repetitions of a download that failed. */
const APT_DOWNLOADS = 5;

/** A machine that has just started may be refreshing its package lists itself, and apt does not wait. */
const APT_TRIES = 3;
const APT_PAUSE_MS = 5000;

/** @typedef {{ file: string, needs: readonly string[] }} Declaration */
/** @typedef {{ need: string, command: string, files: readonly string[] }} Missing */

/**
 * The needs a test file declares. Throws on a name this table does not have.
 * @param {string} text
 * @param {string} file for the message
 * @returns {string[]}
 */
export function declaredNeeds(text, file) {
  const head = text.split("\n").slice(0, DECLARATION_LINES).join("\n");
  const list = /^\/\/ needs: (.*)$/mu.exec(head)?.[1];
  if (list === undefined) return [];
  const names = list.split(",").map((name) => name.trim());
  const known = [...Object.keys(systemPrograms), ...ownNeeds];
  const unknown = names.find((name) => !known.includes(name));
  if (unknown === undefined) return names;
  throw new SetupFailed(
    `${file} needs ${JSON.stringify(unknown)}; known needs: ${known.join(", ")}`,
  );
}

/**
 * Meets what the files declare and returns what could not be met.
 * @param {readonly string[]} files absolute paths of test files
 * @returns {Promise<Missing[]>}
 */
export async function meetNeeds(files) {
  const declarations = files.map((file) => ({
    file,
    needs: declaredNeeds(readFileSync(file, "utf8"), file),
  }));
  const wanted = new Set(declarations.flatMap((declaration) => declaration.needs));
  if (wanted.has("build")) await buildPackages();
  await installMissing(missingAmong(wanted));
  return missingAmong(wanted).map((need) => ({
    need,
    command: installCommand(need),
    files: declarations.filter(({ needs }) => needs.includes(need)).map(({ file }) => file),
  }));
}

/**
 * Where the program that meets a need is. Throws, with the command that installs it, if nowhere.
 * @param {keyof typeof systemPrograms} need
 * @returns {string}
 */
export function programFor(need) {
  const found = findProgram(systemPrograms[need].programs);
  if (found !== undefined) return found;
  throw new Error(`${need} is missing; install it with: ${installCommand(need)}`);
}

/**
 * @param {ReadonlySet<string>} wanted
 * @returns {(keyof typeof systemPrograms)[]}
 */
function missingAmong(wanted) {
  const names = /** @type {(keyof typeof systemPrograms)[]} */ (Object.keys(systemPrograms));
  return names.filter(
    (name) => wanted.has(name) && findProgram(systemPrograms[name].programs) === undefined,
  );
}

/** @param {keyof typeof systemPrograms} need */
function installCommand(need) {
  return `apt-get install ${systemPrograms[need].package}`;
}

/** @param {readonly (keyof typeof systemPrograms)[]} missing */
async function installMissing(missing) {
  if (missing.length === 0 || process.getuid?.() !== 0 || findProgram(["apt-get"]) === undefined) {
    return;
  }
  // apt has no wait for the lock of its package lists, so clones on one machine queue up here.
  await withLock(join(tmpdir(), "redrive-apt.lock"), "another clone's apt-get", async () => {
    const packages = missing
      .filter((need) => findProgram(systemPrograms[need].programs) === undefined)
      .map((need) => systemPrograms[need].package);
    if (packages.length > 0) await aptInstall(packages).catch(sayFailure);
  });
}

/**
 * A machine without the network's package archive is one where installing is not possible.
 * @param {unknown} error
 */
function sayFailure(error) {
  if (!(error instanceof SetupFailed)) throw error;
  say(error.message);
}

/** @param {readonly string[]} packages */
async function aptInstall(packages) {
  await aptGet("Refreshing the system's package lists (apt-get update)", ["update"]);
  await aptGet(`Installing system packages (apt-get install ${packages.join(" ")})`, [
    "install",
    "-y",
    "--no-install-recommends",
    ...packages,
  ]);
}

/**
 * @param {string} label
 * @param {readonly string[]} args
 */
async function aptGet(label, args) {
  const patience = [`DPkg::Lock::Timeout=${APT_LOCK_SECONDS}`, `Acquire::Retries=${APT_DOWNLOADS}`];
  const options = patience.flatMap((option) => ["-o", option]);
  const env = { DEBIAN_FRONTEND: "noninteractive", LC_ALL: "C" };
  await again(() => runCommand({ label, program: "apt-get", args: [...options, ...args], env }));
}

/**
 * Runs `step` until it succeeds, a few times at most: what another apt or the network spoils now
 * and then must not cost a whole run of the tests. The last failure is thrown.
 * @param {() => Promise<unknown>} step
 * @param {number} pauseMs
 */
export async function again(step, pauseMs = APT_PAUSE_MS) {
  for (let tried = 1; ; tried++) {
    try {
      await step();
      return;
    } catch (error) {
      if (!(error instanceof SetupFailed) || tried === APT_TRIES) throw error;
      await sleep(pauseMs);
    }
  }
}
