/**
 * Fair share: how much of a shared limit one member (a tenant) may still take. A member may use at
 * most seven times what is free. So one busy member uses up to seven eighths of the limit, two use
 * up to seven fifteenths each, and so on: members that need more than their part get equal parts, an
 * unused part is available to the others, and something is free for the next member. The sum
 * never exceeds the limit. This is the dynamic threshold of shared packet buffers (Choudhury and
 * Hahne, 1998).
 */

/** A larger number wastes less of the limit, and leaves less for the next member at once. */
const MAX_TIMES_FREE = 7;

/**
 * The number of units that a member may take now, one after the other. A member that has none gets at
 * least one if one is free. The last free unit is for such a member.
 */
export function fairRoom(limit: number, used: number, own: number): number {
  const free = Math.floor(limit - used);
  if (free < 1) return 0;
  // Unit n may be taken if (own + n - 1) < 7 x (free - n).
  const room = Math.ceil((MAX_TIMES_FREE * free - own + 1) / (MAX_TIMES_FREE + 1)) - 1;
  return Math.max(room, own === 0 ? 1 : 0);
}
