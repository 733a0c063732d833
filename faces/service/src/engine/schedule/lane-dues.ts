/**
 * Lane dues: when the tasks of a lane are due, by partition. In a store with one partition, a lane has
 * only its earliest instant. In others it keeps the earliest instant of each partition of this node, so
 * that a claim names the partitions in which tasks are due, and no others.
 */
import type { LaneDue } from "../../model/lane-due.ts";
import type { DestinationLane } from "../destination/destination-runtime.ts";
import type { PlannedClaim } from "./planned-claim.ts";

/** A claim names at most this many partitions. The others follow in the next one. */
const MAX_PARTITIONS = 16;

const SINGLE: readonly number[] = [0];

export function laneDueOf(lane: DestinationLane, partition: number, dueAt: number): LaneDue {
  const { tenantId, name } = lane.destination;
  return { tenantId, destination: name, lane: lane.lane, partition, dueAt };
}

/** A task is due in that partition. Returns true if it is the earliest of the lane. */
export function expectIn(lane: DestinationLane, partition: number, dueAt: number): boolean {
  lane.dueAts ??= new Map();
  setEarlier(lane.dueAts, partition, dueAt);
  if (lane.arrivals !== undefined) setEarlier(lane.arrivals, partition, dueAt);
  const isEarliest = dueAt < lane.dueAt;
  if (isEarliest) lane.dueAt = dueAt;
  return isEarliest;
}

function setEarlier(dueAts: Map<number, number>, partition: number, dueAt: number): void {
  if (dueAt < (dueAts.get(partition) ?? Number.POSITIVE_INFINITY)) dueAts.set(partition, dueAt);
}

/** The partitions with a task that is due at that instant, the earliest first. */
export function duePartitions({ dueAts }: DestinationLane, at: number): readonly number[] {
  if (dueAts === undefined) return SINGLE;
  const due = [...dueAts].filter(([, dueAt]) => dueAt <= at);
  due.sort(([, one], [, other]) => one - other);
  return due.slice(0, MAX_PARTITIONS).map(([partition]) => partition);
}

/** A claim has found when the next tasks are due. Later ones than `horizonAt` are not kept. */
export function recordDues(
  { lane, partitions, arrivals }: Pick<PlannedClaim, "lane" | "partitions" | "arrivals">,
  nextDueAts: readonly (number | null)[],
  horizonAt: number,
): void {
  const { dueAts } = lane;
  if (dueAts === undefined) {
    lane.dueAt = knownDueAt(nextDueAts[0], horizonAt);
    return;
  }
  for (const [index, partition] of partitions.entries()) {
    const dueAt = knownDueAt(nextDueAts[index], horizonAt);
    if (Number.isFinite(dueAt)) dueAts.set(partition, dueAt);
    else dueAts.delete(partition);
  }
  for (const [partition, dueAt] of arrivals ?? []) setEarlier(dueAts, partition, dueAt);
  lane.dueAt = earliestOf(dueAts);
}

/** Forgets partitions that this node does not lease any more. Returns true if it had any. */
export function forgetDues(lane: DestinationLane, isOwn: (partition: number) => boolean): boolean {
  const { dueAts } = lane;
  if (dueAts === undefined) return false;
  const foreign = [...dueAts.keys()].filter((partition) => !isOwn(partition));
  for (const partition of foreign) dueAts.delete(partition);
  lane.dueAt = earliestOf(dueAts);
  return foreign.length > 0;
}

function knownDueAt(dueAt: number | null | undefined, horizonAt: number): number {
  if (dueAt === null || dueAt === undefined) return Number.POSITIVE_INFINITY;
  return dueAt <= horizonAt ? dueAt : Number.POSITIVE_INFINITY;
}

function earliestOf(dueAts: ReadonlyMap<number, number>): number {
  let earliest = Number.POSITIVE_INFINITY;
  for (const dueAt of dueAts.values()) if (dueAt < earliest) earliest = dueAt;
  return earliest;
}
