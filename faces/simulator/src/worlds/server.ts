/**
 * Server: refuses, fails, queues or serves the requests of a tier, in the condition that its
 * timeline gives it. About clients it knows only whether one still waits for a request.
 */

import { type Outcome, SUCCESS, statusOutcome } from "@redrive/core";
import type { Draws } from "../engine/draws.ts";
import { type DurationSampler, durationSampler, exponential } from "../engine/durations.ts";
import { doubleLength } from "../engine/run.ts";
import type { PhaseDocument, ServerDocument } from "../scenario/scenario-document.ts";

/** No request, or no row of a pool. */
export const NONE = -1;

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

const FAILURE: Outcome = statusOutcome(500);

export function responseOutcome(answer: number, retryAfterMs: number | undefined): Outcome {
  if (answer === OK) return SUCCESS;
  if (answer === FAILED) return FAILURE;
  return statusOutcome(answer === THROTTLED ? 429 : 503, retryAfterMs);
}

// Timeline: the condition of a tier at an instant, computed from the phases of a scenario. It
// changes only at the edges of phases, so it is computed again only after `untilMs`.

/** The effect of the phases on one shard of one tier. Invariant: shares and factors are >= 0. */
export interface Condition {
  /** No call succeeds: calls are refused, or hang. */
  down: boolean;
  hangs: boolean;
  /** The queue was lost when this began. */
  lostQueue: boolean;
  failShare: number;
  slowFactor: number;
  capacityFactor: number;
}

const HEALTHY: Condition = {
  down: false,
  hangs: false,
  lostQueue: false,
  failShare: 0,
  slowFactor: 1,
  capacityFactor: 1,
};

/** During a warm-up the capacity is computed again this often. */
const WARM_STEP_MS = 100;

/**
 * Instead of a shard: the whole server with its one queue. Phases of a single shard do not affect
 * it.
 */
export const ALL_SHARDS = -1;

export interface Timeline {
  /** The condition of a shard, or of `ALL_SHARDS`, at `now`. The object is reused. */
  conditionAt(now: number, shard: number): Condition;
  /** When the condition may change next; infinite if never. */
  edgeAfter(now: number): number;
  /** The factor on the load at `now`, and its maximum. */
  loadAt(now: number): number;
  readonly peakLoad: number;
  /** The last instant at which a phase (or its warm-up) ends; 0 without phases. */
  readonly endMs: number;
  /** When the first phase begins; infinite without phases. */
  readonly startMs: number;
}

export function timelineOf(
  phases: readonly PhaseDocument[],
  tier: number,
  lastTier: number,
): Timeline {
  const here = phases.filter((phase) => (phase.tier ?? lastTier) === tier);
  const spikes = phases.filter((phase) => phase.kind === "SPIKE");
  const ofServer = here.filter((phase) => phase.kind !== "SPIKE");
  const sharded = ofServer.some((phase) => phase.shard !== undefined);
  const cached = new Map<number, { condition: Condition; untilMs: number }>();

  function conditionAt(now: number, shard: number): Condition {
    if (ofServer.length === 0) return HEALTHY;
    const key = sharded ? shard : 0;
    const known = cached.get(key);
    if (known && now < known.untilMs) return known.condition;
    const fresh = { condition: conditionOf(ofServer, now, key), untilMs: nextEdge(ofServer, now) };
    cached.set(key, fresh);
    return fresh.condition;
  }

  return {
    conditionAt,
    edgeAfter: (now) => nextEdge(ofServer, now),
    peakLoad: spikes.reduce((max, phase) => max * Math.max(1, phase.factor ?? 2), 1),
    loadAt: (now) => spikes.reduce((factor, phase) => factor * spikeAt(phase, now), 1),
    endMs: Math.max(0, ...phases.map((phase) => phase.atMs + phase.forMs + (phase.warmMs ?? 0))),
    startMs: Math.min(...phases.map((phase) => phase.atMs)),
  };
}

function isOn(phase: PhaseDocument, now: number): boolean {
  return now >= phase.atMs && now < phase.atMs + phase.forMs;
}

function conditionOf(phases: readonly PhaseDocument[], now: number, shard: number): Condition {
  const state = { ...HEALTHY };
  for (const phase of phases) {
    if (phase.shard !== undefined && phase.shard !== shard) continue;
    if (isOn(phase, now)) apply(state, phase);
    else if (phase.kind === "FAILOVER") state.capacityFactor *= warmFactor(phase, now);
  }
  return state;
}

function apply(state: Condition, phase: PhaseDocument): void {
  switch (phase.kind) {
    case "OUTAGE":
    case "FAILOVER":
      state.down = true;
      state.hangs ||= phase.mode === "HANG";
      state.lostQueue ||= phase.kind === "FAILOVER";
      break;
    case "PARTIAL":
      state.failShare = Math.max(state.failShare, phase.share ?? 0.5);
      break;
    case "SLOW":
      state.slowFactor *= phase.factor ?? 2;
      break;
    case "CAPACITY":
      state.capacityFactor *= phase.factor ?? 0.2;
      break;
    case "SPIKE":
      break;
  }
}

/** The share of the capacity after a failover. It grows linearly from a tenth to all of it. */
function warmFactor(phase: PhaseDocument, now: number): number {
  const sinceMs = now - phase.atMs - phase.forMs;
  const { warmMs = 0 } = phase;
  return sinceMs < 0 || sinceMs >= warmMs ? 1 : 0.1 + (0.9 * sinceMs) / warmMs;
}

/** When the condition may change next. */
function nextEdge(phases: readonly PhaseDocument[], now: number): number {
  let edge = Number.POSITIVE_INFINITY;
  for (const { atMs, forMs, warmMs = 0 } of phases) {
    const endMs = atMs + forMs;
    for (const at of [atMs, endMs, endMs + warmMs]) if (at > now && at < edge) edge = at;
    if (warmMs > 0 && now >= endMs && now < endMs + warmMs)
      edge = Math.min(edge, now + WARM_STEP_MS);
  }
  return edge;
}

function spikeAt(phase: PhaseDocument, now: number): number {
  if (!isOn(phase, now)) return 1;
  const { factor = 2 } = phase;
  if (phase.ramp !== true) return factor;
  const share = (now - phase.atMs) / phase.forMs;
  return 1 + (factor - 1) * (share < 0.5 ? 2 * share : 2 - 2 * share);
}
