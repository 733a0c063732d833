/** Partitions: their number. It never changes: the rows of waiting tasks contain their partition. */

/** A divisor of 256, and more than a fleet has nodes: a node needs at least one. */
export const PARTITIONS = 64;
