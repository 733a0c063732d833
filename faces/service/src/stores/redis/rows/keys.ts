/**
 * Keys: the names of all keys in Redis. Every key of a partition has the hash tag of the partition, so
 * that a script can change them together, also in a cluster. Everything that belongs to no partition
 * (rows, nodes, shares, policies, documents) has one other tag. See docs/decisions/0027.
 *
 * Keys of a partition are its base and a suffix (`scripts/task-script.ts` lists them).
 */

/** A divisor of 256. A cluster spreads its load over its masters by partitions. */
export const PARTITIONS = 64;

export const ALL_PARTITIONS: readonly number[] = Array.from({ length: PARTITIONS }, (_, at) => at);

export interface Keys {
  /** The begin of every key of a partition. */
  base(partition: number): string;
  /** The begin of every key that belongs to no partition. */
  readonly control: string;
  /** The channel of hints. */
  readonly channel: string;
}

export function keysOf(prefix: string): Keys {
  const bases = ALL_PARTITIONS.map((partition) => `${prefix}:{p${partition}}`);
  return {
    base: (partition) => bases[partition] as string,
    control: `${prefix}:{control}`,
    channel: `${prefix}:hints`,
  };
}

/** Joins parts with a character that no tenant, destination, id and key contains. */
export function joined(...parts: readonly string[]): string {
  return parts.join("\n");
}
