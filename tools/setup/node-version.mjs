/** Node version: refuses an old Node in plain words, before anything obscure can go wrong. */

export const OLDEST_NODE = "20.19.0";

/**
 * Why this Node is too old, or undefined when it will do.
 * @param {string} version such as "20.19.0"
 * @returns {string | undefined}
 */
export function refuseNode(version) {
  if (compareVersions(version, OLDEST_NODE) >= 0) return undefined;
  return `Redrive needs Node ${OLDEST_NODE} or newer, this is Node ${version}. Install a newer one and try again.`;
}

/** Ends the process with exit code 1 when its Node is too old. */
export function requireNode() {
  const refusal = refuseNode(process.versions.node);
  if (refusal === undefined) return;
  process.stderr.write(`${refusal}\n`);
  process.exit(1);
}

/**
 * @param {string} left
 * @param {string} right
 * @returns {number} below, at or above 0 as `left` is older, equal or newer
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
