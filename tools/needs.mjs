/**
 * Needs: programs beyond npm packages that a test file needs, declared in a line `// needs: redis,
 * chromium` near its top. Only the needs of selected files are installed, as root on a machine with
 * apt-get. Elsewhere, files with a missing need are excluded, and the install command is printed.
 */
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { buildPackages } from "./setup/build.mjs";
import { findProgram, runCommand, SetupFailed } from "./setup/command.mjs";
import { installPackages } from "./setup/install.mjs";
import { withLock } from "./setup/lock.mjs";
import { installPacked } from "./setup/packed.mjs";
import { say } from "./setup/progress.mjs";

/** Needs that a system package provides, with all names of the program. */
export const systemPrograms = {
  redis: { programs: ["redis-server"], package: "redis-server" },
  // The shell has no window system: the tests of the pages take 0.6 of the time that Chromium takes.
  chromium: {
    programs: [
      "chromium-headless-shell",
      "chromium",
      "chromium-browser",
      "google-chrome-stable",
      "google-chrome",
    ],
    package: "chromium-headless-shell",
  },
  rabbitmq: { programs: ["rabbitmq-server"], package: "rabbitmq-server" },
  pgbouncer: { programs: ["pgbouncer"], package: "pgbouncer" },
  faketime: { programs: ["faketime"], package: "faketime" },
  strace: { programs: ["strace"], package: "strace" },
  iproute2: { programs: ["ip"], package: "iproute2" },
  promtool: { programs: ["promtool"], package: "prometheus" },
};

/**
 * Needs without a system package: `postgres` is an npm package, `build` is `npm run build`, `packed` is
 * a project with the packed packages (`setup/packed.mjs`).
 */
const npmNeeds = ["postgres", "build", "packed"];

/** The `needs` line must be within this many lines of the top. */
const DECLARATION_LINES = 12;

/** How long apt waits for the lock of its database. */
const APT_LOCK_SECONDS = 600;

/** How often apt retries a failed download. */
const APT_DOWNLOAD_RETRIES = 5;

/** A freshly started machine may be refreshing its package lists, and apt does not wait for that lock. */
const APT_MAX_TRIES = 3;
const APT_PAUSE_MS = 5000;

/** @typedef {{ file: string, needs: readonly string[] }} Declaration */
/** @typedef {{ need: string, command: string, files: readonly string[] }} Missing */

/**
 * Returns the declared needs of a test file. Throws for an unknown need.
 * @param {string} text
 * @param {string} file for the message
 * @returns {string[]}
 */
export function declaredNeeds(text, file) {
  const head = text.split("\n").slice(0, DECLARATION_LINES).join("\n");
  const list = /^\/\/ needs: (.*)$/mu.exec(head)?.[1];
  if (list === undefined) return [];
  const names = list.split(",").map((name) => name.trim());
  const known = [...Object.keys(systemPrograms), ...npmNeeds];
  const unknown = names.find((name) => !known.includes(name));
  if (unknown === undefined) return names;
  throw new SetupFailed(
    `${file} needs ${JSON.stringify(unknown)}; known needs: ${known.join(", ")}`,
  );
}

/**
 * Installs the npm packages and the declared needs, and returns those that are still missing. The system
 * packages are installed meanwhile: both mostly wait for the network and the disk.
 * @param {readonly string[]} files absolute paths of test files
 * @returns {Promise<Missing[]>}
 */
export async function meetNeeds(files) {
  const declarations = files.map((file) => ({
    file,
    needs: declaredNeeds(readFileSync(file, "utf8"), file),
  }));
  const wanted = new Set(declarations.flatMap((declaration) => declaration.needs));
  await Promise.all([installWithNpm(wanted), installMissing(missingAmong(wanted))]);
  return missingAmong(wanted).map((need) => ({
    need,
    command: installCommand(need),
    files: declarations.filter(({ needs }) => needs.includes(need)).map(({ file }) => file),
  }));
}

/** @param {ReadonlySet<string>} wanted */
async function installWithNpm(wanted) {
  await installPackages();
  if (wanted.has("build")) await buildPackages();
  if (wanted.has("packed")) await installPacked();
}

/**
 * Returns the path of a need's program. If it is missing, throws with the install command.
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
  // apt does not wait for the lock of its package lists, so checkouts on one machine wait here.
  await withLock(
    join(tmpdir(), "redrive-apt.lock"),
    "the apt-get of another checkout",
    async () => {
      const packages = missing
        .filter((need) => findProgram(systemPrograms[need].programs) === undefined)
        .map((need) => systemPrograms[need].package);
      if (packages.length > 0) await aptInstall(packages).catch(sayFailure);
    },
  );
}

/**
 * Without a package archive, installing is not possible. Only prints the failure.
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
  const waits = [
    `DPkg::Lock::Timeout=${APT_LOCK_SECONDS}`,
    `Acquire::Retries=${APT_DOWNLOAD_RETRIES}`,
  ];
  const options = waits.flatMap((option) => ["-o", option]);
  const env = { DEBIAN_FRONTEND: "noninteractive", LC_ALL: "C" };
  await retryStep(() =>
    runCommand({ label, program: "apt-get", args: [...options, ...args], env }),
  );
}

/**
 * Runs `step` until it succeeds, a few times at most, because another apt or the network can make it
 * fail. Throws the last failure.
 * @param {() => Promise<unknown>} step
 * @param {number} pauseMs
 */
export async function retryStep(step, pauseMs = APT_PAUSE_MS) {
  for (let tried = 1; ; tried++) {
    try {
      await step();
      return;
    } catch (error) {
      if (!(error instanceof SetupFailed) || tried === APT_MAX_TRIES) throw error;
      await sleep(pauseMs);
    }
  }
}
