/** Root: where this clone is, and short ways to name what is in it. */
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

export const root = resolve(fileURLToPath(new URL("../../", import.meta.url)));

/**
 * A path inside the clone.
 * @param {string[]} parts
 */
export function inRoot(...parts) {
  return join(root, ...parts);
}

/** The packages that `tsc -b` builds, inner ones first. */
export const builtWorkspaces = [
  "core",
  "faces/library",
  "faces/service",
  "faces/simulator",
  "apps/cli",
];
