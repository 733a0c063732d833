/**
 * Install: brings node_modules in line with the lockfile. The stamp inside node_modules is the
 * lockfile's hash, so it goes when node_modules goes, and no clock is asked.
 */
import { existsSync, readFileSync } from "node:fs";
import { npm, runCommand } from "./command.mjs";
import { fingerprint, readStamp, writeStamp } from "./fingerprint.mjs";
import { withLock } from "./lock.mjs";
import { inRoot } from "./root.mjs";

export const SETUP_LOCK = inRoot(".redrive", "setup.lock");

/** The parts of a lockfile's entry that say whether the right thing is installed. */
/** @typedef {{ version?: string, integrity?: string, optional?: boolean, link?: boolean }} Entry */

/** Installs npm packages unless those of the lockfile are already there. */
export async function installPackages() {
  await installIn(inRoot(), "Installing npm packages (npm ci --ignore-scripts)");
}

/**
 * The same for any folder with a lockfile of its own, such as bench/.
 * @param {string} folder
 * @param {string} label
 */
export async function installIn(folder, label) {
  const stampPath = `${folder}/node_modules/.redrive-install`;
  const wanted = fingerprint([`${folder}/package-lock.json`], [process.platform, process.arch]);
  if (readStamp(stampPath) === wanted) return;
  await withLock(SETUP_LOCK, "another set-up of this clone", async () => {
    if (readStamp(stampPath) === wanted) return;
    if (!isInstalled(folder)) await npmCi(folder, label);
    writeStamp(stampPath, wanted);
  });
}

/**
 * @param {string} folder
 * @param {string} label
 */
async function npmCi(folder, label) {
  // Neither an audit nor a word about funding: both ask the network, and nobody reads them here.
  const quiet = ["--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=5"];
  await runCommand({ label, ...npm(["ci", "--ignore-scripts", ...quiet]), cwd: folder });
}

/**
 * True when npm's own record of node_modules already says what the lockfile says, as after an
 * `npm install` by hand. Spares colleagues in the same clone a node_modules pulled from under them.
 * @param {string} folder
 */
function isInstalled(folder) {
  const recordPath = `${folder}/node_modules/.package-lock.json`;
  if (!existsSync(recordPath)) return false;
  return recordMatches(packagesOf(`${folder}/package-lock.json`), packagesOf(recordPath));
}

/**
 * @param {Record<string, Entry>} wanted the lockfile's packages
 * @param {Record<string, Entry>} found those of npm's record inside node_modules
 */
export function recordMatches(wanted, found) {
  return Object.entries(wanted).every(([path, entry]) => {
    if (!path.startsWith("node_modules/")) return true;
    const installed = found[path];
    if (installed === undefined) return entry.optional === true;
    return installed.version === entry.version && installed.integrity === entry.integrity;
  });
}

/**
 * @param {string} path
 * @returns {Record<string, Entry>}
 */
function packagesOf(path) {
  return JSON.parse(readFileSync(path, "utf8")).packages;
}
