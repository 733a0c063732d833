/**
 * Assign partitions: divides the partitions of a store among the live nodes of a fleet. Every node
 * computes the same result from the same list of nodes, so they need no locks. When a node joins or
 * leaves, few partitions move (rendezvous hashing), and no node has more than its part.
 */
import { hashOf } from "../../model/partition.ts";

/** The partitions of `nodeId`; none if it is not one of the nodes. */
export function assignPartitions(
  nodes: readonly string[],
  nodeId: string,
  partitions: readonly number[],
): readonly number[] {
  if (!nodes.includes(nodeId)) return [];
  if (nodes.length === 1) return partitions;
  const sorted = [...nodes].sort();
  const room = new Map(sorted.map((node) => [node, Math.ceil(partitions.length / sorted.length)]));
  const own: number[] = [];
  for (const partition of partitions) {
    const owner = ownerOf(sorted, partition, room);
    room.set(owner, (room.get(owner) ?? 0) - 1);
    if (owner === nodeId) own.push(partition);
  }
  return own;
}

/** The node with the highest hash that still has room. */
function ownerOf(
  nodes: readonly string[],
  partition: number,
  room: ReadonlyMap<string, number>,
): string {
  let owner = nodes[0] as string;
  let highest = -1;
  for (const node of nodes) {
    const hash = mix(hashOf(`${partition}\n${node}`));
    if ((room.get(node) ?? 0) > 0 && hash > highest) {
      highest = hash;
      owner = node;
    }
  }
  return owner;
}

/** FNV alone changes its high bits too little for texts that differ in their end (MurmurHash3). */
function mix(hash: number): number {
  let mixed = hash ^ (hash >>> 16);
  mixed = Math.imul(mixed, 0x85ebca6b);
  mixed ^= mixed >>> 13;
  mixed = Math.imul(mixed, 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
