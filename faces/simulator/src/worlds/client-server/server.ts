/**
 * Server: refuses, fails, queues or serves the requests of a tier. About clients it knows only
 * whether one still waits for a request.
 */

import { doubleLength } from "../../events/limits.ts";
import type { Draws } from "../../random/draws.ts";
import { type DurationSampler, durationSampler, exponential } from "../../random/durations.ts";
import type { ServerDocument } from "../../scenario/scenario-document.ts";
import { NONE } from "./pools.ts";
import { ALL_SHARDS, type Timeline } from "./timeline.ts";

/** How a server responds to a request. */
export const OK = 0;
export const FAILED = 1;
export const REFUSED = 2;
/** No response: the client times out. */
export const SILENT = 3;
/** Accepted: a response follows later. */
export const ACCEPTED = 4;
/** Refused because of too many calls: 429. */
export const THROTTLED = 5;

export interface Server {
  readonly timeline: Timeline;
  /** Mean service time; 0 without a capacity. */
  readonly serviceMs: number;
  readonly isExponential: boolean;
  readonly queueMs: number;
  readonly isLifo: boolean;
  readonly dropsExpired: boolean;
  readonly latency: DurationSampler;
  readonly perCallMs: number;
  readonly hop: DurationSampler;
  readonly failureRate: number;
  readonly shards: number;
  /** REFUSED or THROTTLED: the response of a full queue. */
  readonly overload: number;
  readonly retryAfterMs: number | undefined;
  /** Waiting requests in a ring buffer. FIFO takes the oldest, LIFO the newest. */
  ring: Int32Array;
  first: number;
  waiting: number;
  /** The request in service, or NONE. */
  serving: number;
  inProgress: number;
  /** When a stopped server checks its condition again. */
  wakeAt: number;
}

export function createServer(document: ServerDocument, timeline: Timeline): Server {
  const { capacityPerSecond } = document;
  return {
    timeline,
    serviceMs: capacityPerSecond === undefined ? 0 : 1000 / capacityPerSecond,
    isExponential: document.service === "EXPONENTIAL",
    queueMs: document.queueMs ?? Number.POSITIVE_INFINITY,
    isLifo: document.discipline === "LIFO",
    dropsExpired: document.dropsExpired ?? false,
    latency: durationSampler(document.latency ?? 0),
    perCallMs: document.perCallMs ?? 0,
    hop: durationSampler(document.hop ?? 0),
    failureRate: document.failureRate ?? 0,
    shards: document.shards ?? 1,
    overload: document.overload === "429" ? THROTTLED : REFUSED,
    retryAfterMs: document.retryAfterMs,
    ring: new Int32Array(1024),
    first: 0,
    waiting: 0,
    serving: NONE,
    inProgress: 0,
    wakeAt: -1,
  };
}

/**
 * What happens to a request that arrives now: FAILED at once, REFUSED, THROTTLED, SILENT or
 * ACCEPTED.
 */
export function arrivalResult(server: Server, now: number, shard: number, draws: Draws): number {
  const { down, hangs, lostQueue, failShare } = server.timeline.conditionAt(now, shard);
  if (down && !hangs) return REFUSED;
  const share = Math.max(failShare, server.failureRate);
  if (!down && share > 0 && draws.next() < share) return FAILED;
  // A stopped server keeps arriving requests in its queue, if it has one. A shard has none.
  const keeps =
    server.serviceMs > 0 && !lostQueue && server.timeline.conditionAt(now, ALL_SHARDS).down;
  if (down && !keeps) return SILENT;
  const ahead = server.waiting + (server.serving === NONE ? 0 : 1);
  return ahead * server.serviceMs >= server.queueMs && ahead > 0 ? server.overload : ACCEPTED;
}

/** Time from acceptance (or the end of service) to the response. */
export function responseMs(server: Server, now: number, shard: number, draws: Draws): number {
  const { slowFactor } = server.timeline.conditionAt(now, shard);
  return (server.latency(draws) + server.perCallMs * server.inProgress) * slowFactor;
}

export function enqueue(server: Server, request: number): void {
  if (server.waiting === server.ring.length) enlargeRing(server);
  server.ring[(server.first + server.waiting) & (server.ring.length - 1)] = request;
  server.waiting++;
}

/** Doubles a full ring. The requests that had wrapped to its beginning move behind its old end. */
function enlargeRing(server: Server): void {
  const { ring, first } = server;
  server.ring = doubleLength(ring);
  server.ring.copyWithin(ring.length, 0, first);
}

/** Takes the next request, or NONE. */
export function dequeue(server: Server): number {
  if (server.waiting === 0) return NONE;
  server.waiting--;
  const mask = server.ring.length - 1;
  if (server.isLifo) return server.ring[(server.first + server.waiting) & mask] as number;
  const request = server.ring[server.first] as number;
  server.first = (server.first + 1) & mask;
  return request;
}

/** The service time of one request now; infinite while the server is stopped. */
export function serviceTime(server: Server, now: number, draws: Draws): number {
  const { down, capacityFactor, slowFactor } = server.timeline.conditionAt(now, ALL_SHARDS);
  if (down || capacityFactor === 0) return Number.POSITIVE_INFINITY;
  const share = server.isExponential ? exponential(draws) : 1;
  return (server.serviceMs * share * slowFactor) / capacityFactor;
}
