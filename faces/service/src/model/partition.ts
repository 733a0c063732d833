/**
 * Partition: a number in the id of a task. A store commits each partition atomically, and a node of a
 * fleet attempts the tasks of the partitions that it leases. Tasks that are written together
 * (a task and its callback, a dead letter and its redrive) have the same partition.
 *
 * The id has one byte for it. A store with fewer than 256 partitions uses the byte modulo their
 * number, so a task keeps its byte when it moves to a store with another number.
 */

/** The values of the byte. The number of partitions of a store divides it. */
export const PARTITION_VALUES = 256;

/** Where the byte is in a UUID, in hexadecimal digits: after the variant. */
const BYTE_AT = 21;

/** The byte in the id of a task. 0 for a text that is not an id. */
export function partitionByteOf(taskId: string): number {
  const byte = Number.parseInt(taskId.slice(BYTE_AT, BYTE_AT + 2), 16);
  return Number.isNaN(byte) ? 0 : byte;
}

/** The partition of a task, in a store with `partitions` of them. */
export function partitionOf(taskId: string, partitions: number): number {
  return partitions === 1 ? 0 : partitionByteOf(taskId) % partitions;
}

const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/**
 * The byte for a task with an idempotency key. Every node finds the same one, so a store finds the
 * earlier task of the key in one partition. FNV-1a, with the high bits folded in.
 */
export function partitionByteOfKey(tenantId: string, idempotencyKey: string): number {
  const hash = hashOf(`${tenantId}\n${idempotencyKey}`);
  return (hash ^ (hash >>> 8) ^ (hash >>> 16) ^ (hash >>> 24)) & 0xff;
}

/** A 32-bit hash that every node and every version computes alike. */
export function hashOf(text: string): number {
  let hash = FNV_OFFSET;
  for (let at = 0; at < text.length; at++) {
    hash = Math.imul(hash ^ text.charCodeAt(at), FNV_PRIME);
  }
  return hash >>> 0;
}
