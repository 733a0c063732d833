/**
 * Exchange of shard: what differs if a node exchanges with one shard of several: the shard has its own
 * clock, and tasks on the other shards must not wait for it.
 */
import { type Renewal, shiftedRenewal } from "../model/node-report.ts";
import type { EngineTime } from "../time/engine-time.ts";
import type { StoreClock } from "../time/store-clock.ts";
import type { DestinationRuntime } from "./destination/destination-runtime.ts";
import { useEqualPart } from "./destination/fleet-report.ts";
import type { Fleet } from "./fleet.ts";
import type { NodeLease } from "./node/node-lease.ts";
import type { Schedule } from "./schedule/scheduler.ts";

export interface ShardExchangeParts {
  readonly isShard: boolean;
  readonly time: EngineTime;
  readonly storeClock: StoreClock | undefined;
  readonly lease: NodeLease;
  readonly fleet: Fleet;
  readonly schedule: Schedule;
}

/**
 * Engine time follows the clock of another shard, so the instants of this one are translated. Like those
 * of the reference they are late by at most a round trip, and never early.
 */
export function onEngineTime(
  { isShard, storeClock, time }: ShardExchangeParts,
  renewal: Renewal,
): Renewal {
  if (!isShard || storeClock !== undefined) return renewal;
  return shiftedRenewal(renewal, time.now() - renewal.now);
}

/**
 * The exchange failed. Until its lease ends, a node keeps its shares, because no other node gets them.
 * After that it uses an equal part of each limit.
 */
export function useEqualParts(
  { isShard, lease, fleet, time, schedule }: ShardExchangeParts,
  reported: readonly (readonly [DestinationRuntime, unknown])[],
): void {
  if (!isShard || lease.isHeld()) return;
  for (const [destination] of reported) {
    useEqualPart(destination, fleet.place, time.now());
    schedule.unblock(destination, time.now());
  }
}
