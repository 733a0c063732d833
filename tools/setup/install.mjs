/**
 * Install: installs npm packages if node_modules does not match the lockfile. The stamp in
 * node_modules is the hash of the lockfile, so it disappears with node_modules and needs no clock.
 */
import { existsSync, readFileSync } from "node:fs";
import { npm, runCommand } from "./command.mjs";
import { fingerprint, readStamp, writeStamp } from "./fingerprint.mjs";
import { withLock } from "./lock.mjs";
import { inRoot } from "./root.mjs";

export const SETUP_LOCK = inRoot(".redrive", "setup.lock");

/** The parts of a lockfile entry that identify the installed package. */
/** @typedef {{ version?: string, integrity?: string, optional?: boolean, link?: boolean }} Entry */

/** Installs the packages of the lockfile, unless they are already installed. */
export async function installPackages() {
  await installIn(inRoot(), "Installing npm packages (npm ci --ignore-scripts)");
}

/**
 * Does the same for any folder with its own lockfile, such as bench/.
 * @param {string} folder
 * @param {string} label
 */
export async function installIn(folder, label) {
  const stampPath = `${folder}/node_modules/.redrive-install`;
  const wanted = fingerprint([`${folder}/package-lock.json`], [process.platform, process.arch]);
  if (readStamp(stampPath) === wanted) return;
  await withLock(SETUP_LOCK, "another setup of this checkout", async () => {
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
  // No audit and no funding messages: both use the network, and nobody reads them here. No warnings:
  // the progress line shows the last line of the output.
  const quiet = ["--no-audit", "--no-fund", "--loglevel=error"];
  const network = ["--prefer-offline", "--fetch-retries=5"];
  await runCommand({
    label,
    ...npm(["ci", "--ignore-scripts", ...quiet, ...network]),
    cwd: folder,
  });
}

/**
 * True if npm's record of node_modules matches the lockfile, as after a manual `npm install`. Avoids
 * replacing node_modules while other processes of the same checkout use it.
 * @param {string} folder
 */
function isInstalled(folder) {
  const recordPath = `${folder}/node_modules/.package-lock.json`;
  if (!existsSync(recordPath)) return false;
  return recordMatches(packagesOf(`${folder}/package-lock.json`), packagesOf(recordPath));
}

/**
 * @param {Record<string, Entry>} wanted the packages of the lockfile
 * @param {Record<string, Entry>} found the packages of npm's record in node_modules
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
