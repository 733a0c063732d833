/**
 * Nearest name: finds the known name that a misspelled one probably means. In a browser, where every byte is
 * sent to its user, it replaces `suggest-name.ts` (see `imports` in package.json).
 */

/**
 * The known name that is closest to a misspelled one, if one is close enough. It ignores the value, which
 * only `suggest-name.ts` uses.
 */
export function nearestName(
  name: string,
  known: readonly string[],
  _value?: unknown,
): string | undefined {
  let best: string | undefined;
  let bestDistance = Number.POSITIVE_INFINITY;
  for (const candidate of known) {
    const distance = editDistance(name.slice(0, 64).toLowerCase(), candidate.toLowerCase());
    const near = distance <= Math.max(2, candidate.length / 3);
    if (near && distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** Levenshtein distance, computed one row at a time. */
function editDistance(from: string, to: string): number {
  let row = Array.from(to, (_, index) => index + 1);
  for (let i = 0; i < from.length; i++) {
    let diagonal = i;
    let left = i + 1;
    row = row.map((above, j) => {
      left = Math.min(diagonal + (from[i] === to[j] ? 0 : 1), above + 1, left + 1);
      diagonal = above;
      return left;
    });
  }
  return row.at(-1) ?? from.length;
}

export { nearestName as suggestName };
