/** Root: the folder of this checkout, and paths in it. */
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

export const root = resolve(fileURLToPath(new URL("../../", import.meta.url)));

/**
 * Returns a path inside the checkout.
 * @param {string[]} parts
 */
export function inRoot(...parts) {
  return join(root, ...parts);
}

/** The packages that `tsc -b` builds, in the order of their dependencies. */
export const builtWorkspaces = [
  "core",
  "faces/library",
  "faces/service",
  "faces/simulator",
  "apps/cli",
];
