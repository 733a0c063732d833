/**
 * A simulated destination for concurrency limits: it serves a number of calls at once, first come first
 * served, queues or refuses the rest, and always has a caller waiting. It runs in virtual time.
 */

import { seededRandom } from "../time/virtual.ts";
import {
  type Concurrency,
  concurrencyLimit,
  enterConcurrency,
  leaveConcurrency,
} from "./concurrency.ts";

interface Destination {
  /** Calls that it serves at once, by seconds since the start. */
  readonly capacity: (second: number) => number;
  /** Calls that it queues beyond that; it refuses the rest at once. */
  readonly queue: number;
}

/** Duration of a call that does not wait. */
const SERVICE_MS = 100;

interface LoadReport {
  /** The limit at the end of each second. */
  readonly limits: number[];
  /** Calls served in each second. */
  readonly served: number[];
}

/** Keeps the destination as busy as the limit allows, for a number of seconds. */
export function saturate(
  concurrency: Concurrency,
  destination: Destination,
  seconds: number,
): LoadReport {
  const random = seededRandom(1);
  const limits: number[] = [];
  const served: number[] = [];
  const underWay: { readonly startAt: number; readonly endAt: number }[] = [];
  let lastEndAt = 0;
  let now = 0;
  let done = 0;
  while (limits.length < seconds) {
    const capacity = destination.capacity(now / 1000);
    while (enterConcurrency(concurrency, false, Math.floor(now))) {
      if (underWay.length >= capacity + destination.queue) {
        leaveConcurrency(concurrency, Math.floor(now), false, "dropped", 1);
        break;
      }
      lastEndAt = Math.max(now + SERVICE_MS, lastEndAt + SERVICE_MS / capacity);
      underWay.push({ startAt: now, endAt: lastEndAt });
    }
    const next = underWay.shift();
    if (next === undefined) throw new Error("the limit admitted no call");
    for (; next.endAt >= 1000 * (limits.length + 1); done = 0) {
      limits.push(concurrencyLimit(concurrency));
      served.push(done);
    }
    now = next.endAt;
    done++;
    const rttMs = (now - next.startAt) * (0.8 + 0.4 * random.next());
    leaveConcurrency(concurrency, Math.floor(now), false, "success", rttMs);
  }
  return { limits, served };
}
