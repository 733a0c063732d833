/**
 * Pools: calls and requests as numbered rows of typed arrays. A *call* is what a client wants done.
 * A *request* is one attempt or hedge of a call on the wire. It may outlive the call, because
 * servers finish work that no client waits for any more.
 */

import { doubleLength } from "../../events/limits.ts";

export const NONE = -1;

export interface CallPool {
  /** Rows created so far, in use or not. */
  size: number;
  free: number[];
  tier: Int32Array;
  /** The caller whose guards apply: a client, or the tier. */
  caller: Int32Array;
  /** The client that it serves, directly or through tiers. */
  client: Int32Array;
  /** The request that it serves, or NONE for a client's call. */
  parent: Int32Array;
  shard: Int32Array;
  attempt: Int32Array;
  startedAt: Float64Array;
  previousMs: Float64Array;
  /** 1 if the latest attempt was throttled: its retry may cost more. */
  throttled: Int32Array;
  /** The delay between two copies of this attempt. */
  hedgeMs: Float64Array;
  /** Until when a response to a copy of this attempt asked to wait (Retry-After). */
  quietUntil: Float64Array;
  /** Increases when an attempt ends. Requests of another generation are stale. */
  generation: Int32Array;
  /** The first of this attempt's requests in progress. */
  live: Int32Array;
}

export interface RequestPool {
  size: number;
  free: number[];
  call: Int32Array;
  generation: Int32Array;
  /** The generation of the call when it was sent; does not change. */
  race: Int32Array;
  /** Copied from the call, because another call may reuse its row. */
  tier: Int32Array;
  shard: Int32Array;
  sentAt: Float64Array;
  /** 0 for the original, 1 and up for hedges. */
  copy: Int32Array;
  /** The next request of the same attempt (a hedge), or NONE. */
  sibling: Int32Array;
  /** The response: see `server.ts`. */
  response: Int32Array;
  /** Events and queues that still refer to it. At 0 the row is free. */
  references: Int32Array;
}

const FIRST_ROWS = 1024;
const ints = () => new Int32Array(FIRST_ROWS);
const floats = () => new Float64Array(FIRST_ROWS);

export function createCalls(): CallPool {
  return {
    size: 0,
    free: [],
    tier: ints(),
    caller: ints(),
    client: ints(),
    parent: ints(),
    shard: ints(),
    attempt: ints(),
    startedAt: floats(),
    previousMs: floats(),
    throttled: ints(),
    hedgeMs: floats(),
    quietUntil: floats(),
    generation: ints(),
    live: ints(),
  };
}

export function createRequests(): RequestPool {
  return {
    size: 0,
    free: [],
    call: ints(),
    generation: ints(),
    race: ints(),
    tier: ints(),
    shard: ints(),
    sentAt: floats(),
    copy: ints(),
    sibling: ints(),
    response: ints(),
    references: ints(),
  };
}

/** Takes a row. Its fields still have the values of the last user. */
export function takeRow(pool: CallPool | RequestPool): number {
  const recycled = pool.free.pop();
  if (recycled !== undefined) return recycled;
  if (pool.size === pool.generation.length) enlarge(pool);
  return pool.size++;
}

function enlarge(pool: CallPool | RequestPool): void {
  const rows = pool as unknown as Record<string, unknown>;
  for (const [name, column] of Object.entries(rows)) {
    if (column instanceof Int32Array || column instanceof Float64Array)
      rows[name] = doubleLength(column);
  }
}

/** Releases one reference to a request. The last release frees the row. */
export function release(requests: RequestPool, request: number): void {
  const left = (requests.references[request] as number) - 1;
  requests.references[request] = left;
  if (left === 0) requests.free.push(request);
}

export function retain(requests: RequestPool, request: number): void {
  requests.references[request] = (requests.references[request] as number) + 1;
}
