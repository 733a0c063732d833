/**
 * Row locks: the destinations whose rows a batch writes, or claims under. A claim holds the lock shared
 * until it is committed, so a pause that was acknowledged is not followed by a claim that began before.
 */
import type { Batch } from "../../../model/batch.ts";

/** The name, and 1 if the row is written. In one order, so that two commits never wait for each other. */
export function rowLocks({
  destinations,
  creates,
  claims,
}: Batch): readonly (readonly [string, 0 | 1])[] {
  const locks = new Map<string, 0 | 1>();
  for (const { tenantId, destination } of claims) locks.set(`${tenantId}\n${destination}`, 0);
  for (const { task, claimVersion } of creates) {
    if (claimVersion !== null) locks.set(`${task.tenantId}\n${task.destination}`, 0);
  }
  for (const { row } of destinations) locks.set(`${row.tenantId}\n${row.name}`, 1);
  return [...locks].sort(([one], [other]) => compareTexts(one, other));
}

export function compareTexts(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}
