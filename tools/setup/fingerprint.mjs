/** Fingerprint: hashes files by content, so that a stamp stays valid after a checkout or a copy. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { root } from "./root.mjs";

/** Folders with generated files. */
const SKIPPED = new Set(["node_modules", "dist", "coverage", ".git", ".redrive"]);

/**
 * Lists every file below `path` in a stable order, or `path` itself if it is a file.
 * @param {string} path
 * @returns {string[]}
 */
export function filesBelow(path) {
  if (!existsSync(path)) return [];
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path, { withFileTypes: true })
    .filter((entry) => !SKIPPED.has(entry.name) && (entry.isDirectory() || entry.isFile()))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => filesBelow(join(path, entry.name)));
}

/**
 * @param {readonly string[]} paths
 * @param {readonly string[]} facts other values that the result depends on
 * @returns {string}
 */
export function fingerprint(paths, facts) {
  const hash = createHash("sha256");
  for (const fact of facts) hash.update(`${fact}\0`);
  for (const path of paths) {
    hash.update(`${relative(root, path)}\0`);
    hash.update(readFileSync(path));
  }
  return hash.digest("hex");
}

/**
 * @param {string} path
 * @returns {string | undefined}
 */
export function readStamp(path) {
  return existsSync(path) ? readFileSync(path, "utf8") : undefined;
}

/**
 * @param {string} path
 * @param {string} stamp
 */
export function writeStamp(path, stamp) {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, stamp);
}
