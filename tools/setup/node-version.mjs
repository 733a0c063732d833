/** Node version: stops with a clear message if Node is too old. */

export const MIN_NODE = "20.19.0";

/**
 * Returns why this Node is too old, or undefined if it is supported.
 * @param {string} version such as "20.19.0"
 * @returns {string | undefined}
 */
export function nodeProblem(version) {
  if (compareVersions(version, MIN_NODE) >= 0) return undefined;
  return `Redrive needs Node ${MIN_NODE} or newer, but this is Node ${version}. Install a newer version and try again.`;
}

/** Exits with 1 if Node is too old. */
export function requireNode() {
  const problem = nodeProblem(process.versions.node);
  if (problem === undefined) return;
  process.stderr.write(`${problem}\n`);
  process.exit(1);
}

/**
 * @param {string} left
 * @param {string} right
 * @returns {number} negative, 0 or positive if `left` is older, equal or newer
 */
function compareVersions(left, right) {
  const a = left.split(".").map(Number);
  const b = right.split(".").map(Number);
  for (let i = 0; i < 3; i++) {
    const difference = (a[i] || 0) - (b[i] || 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
