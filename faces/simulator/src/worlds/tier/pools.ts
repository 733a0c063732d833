/**
 * Pools: calls and requests of an open world as numbered rows of typed arrays. A *call* is what a
 * client wants done; a *request* is one attempt or hedge of it on the wire, which may outlive it:
 * servers finish work that nobody waits for any more.
 */

import { twice } from "../../events/limits.ts";

export const NONE = -1;

export interface CallPool {
  /** Rows handed out so far, in use or not. */
  size: number;
  free: number[];
  tier: Int32Array;
  /** Whose guards it passes: a client's, or its tier's. */
  caller: Int32Array;
  /** Which client it serves, directly or through tiers. */
  client: Int32Array;
  /** The request it serves, or NONE for a client's own call. */
  parent: Int32Array;
  shard: Int32Array;
  attempt: Int32Array;
  startedAt: Float64Array;
  previousMs: Float64Array;
  /** 1 if the latest attempt was throttled: its retry may have another price. */
  throttled: Int32Array;
  /** How long after one copy of this attempt the next may leave. */
  hedgeMs: Float64Array;
  /** Until when a copy of this attempt was asked to wait (Retry-After). */
  quietUntil: Float64Array;
  /** Changes whenever an attempt ends: requests of another generation are stale. */
  generation: Int32Array;
  /** First of the requests under way for this attempt. */
  live: Int32Array;
}

export interface RequestPool {
  size: number;
  free: number[];
  call: Int32Array;
  generation: Int32Array;
  /** The generation of the call when it was sent; does not change. */
  race: Int32Array;
  /** Kept here too, because the row of a call that is over may serve another. */
  tier: Int32Array;
  shard: Int32Array;
  sentAt: Float64Array;
  /** 0 is the first of its attempt, 1 and up are hedges. */
  copy: Int32Array;
  /** The next request of the same attempt (a hedge), or NONE. */
  sibling: Int32Array;
  /** How it was answered: see `server.ts`. */
  answer: Int32Array;
  /** Events and queues that still speak of it; at 0 the row is free. */
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
    answer: ints(),
    references: ints(),
  };
}

/** A row to use; its fields are whatever the last user left. */
export function takeRow(pool: CallPool | RequestPool): number {
  const recycled = pool.free.pop();
  if (recycled !== undefined) return recycled;
  if (pool.size === pool.generation.length) enlarge(pool);
  return pool.size++;
}

function enlarge(pool: CallPool | RequestPool): void {
  const rows = pool as unknown as Record<string, unknown>;
  for (const [name, column] of Object.entries(rows)) {
    if (column instanceof Int32Array || column instanceof Float64Array) rows[name] = twice(column);
  }
}

/** Lets go of one reference to a request; the last one frees its row. */
export function release(requests: RequestPool, request: number): void {
  const left = (requests.references[request] as number) - 1;
  requests.references[request] = left;
  if (left === 0) requests.free.push(request);
}

export function retain(requests: RequestPool, request: number): void {
  requests.references[request] = (requests.references[request] as number) + 1;
}
