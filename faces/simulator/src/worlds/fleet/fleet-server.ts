/**
 * Fleet server: a server so simple that the response is known when a call arrives, and the check
 * for scenarios that qualify.
 */
import { type CallsScenario, isPlainTier, type Tier } from "../../scenario/scenario.ts";
import type { PhaseDocument, ServerDocument } from "../../scenario/scenario-document.ts";

/**
 * True if the fleet engine can run the scenario. The engine of `calls.ts` can run every scenario.
 */
export function isFleet({ clients, tiers, timeline }: CallsScenario): boolean {
  const [tier] = tiers;
  if (clients.kind !== "CLOSED" || clients.jobs !== 1 || tiers.length !== 1 || !tier) return false;
  return (
    tier.destination.hedge === undefined &&
    (isPlainTier(tier) ? isPlainServer(tier) : clients.think === undefined && takesTime(tier)) &&
    isSimpleServer(tier) &&
    timeline.every((phase) => isSimplePhase(phase, tier))
  );
}

/** The compiled policy supports neither hints nor throttling. */
function isPlainServer({ server }: Tier): boolean {
  return server.retryAfterMs === undefined && server.overload !== "429";
}

/** In the general engine, successes that take no time come after failures of the same instant. */
function takesTime({ server }: Tier): boolean {
  return server.capacityPerSecond !== undefined || (server.latency ?? 0) !== 0;
}

/**
 * True for a server that responds in order, after a time known on arrival, before any attempt times
 * out.
 */
function isSimpleServer({ server, destination }: Tier): boolean {
  const { service = "FIXED", discipline = "FIFO", perCallMs = 0, hop = 0, shards = 1 } = server;
  const { latency = 0, capacityPerSecond } = server;
  if (service !== "FIXED" || discipline !== "FIFO" || perCallMs > 0 || hop !== 0) return false;
  if (typeof latency !== "number" || shards > 1) return false;
  const { attemptTimeoutMs } = destination.policy;
  if (capacityPerSecond === undefined) return latency < attemptTimeoutMs;
  const { queueMs = attemptTimeoutMs } = server;
  // The call's own service time, and the rest of the current one, which the bound of the queue
  // ignores.
  return latency + queueMs + 2000 / capacityPerSecond < attemptTimeoutMs;
}

/** If the server can stop or slow down later, the time in its queue is not known on arrival. */
function isSimplePhase({ kind, mode, atMs }: PhaseDocument, { server }: Tier): boolean {
  if (kind === "SLOW" || kind === "FAILOVER" || kind === "SPIKE") return false;
  if (kind === "PARTIAL" || server.capacityPerSecond === undefined) return true;
  return kind === "OUTAGE" && mode !== "HANG" && atMs === 0;
}

export interface FleetServer {
  /** Share of calls that the server fails at random. */
  readonly failureRate: number;
  readonly latencyMs: number;
  /** Calls that would wait longer are refused. */
  readonly fullMs: number;
  readonly serviceMs: number;
  /** When the server will have finished all accepted calls. */
  freeAt: number;
}

export function createFleetServer(server: ServerDocument): FleetServer {
  const {
    capacityPerSecond,
    queueMs = Number.POSITIVE_INFINITY,
    latency,
    failureRate = 0,
  } = server;
  const serviceMs = capacityPerSecond === undefined ? 0 : 1000 / capacityPerSecond;
  return {
    failureRate,
    latencyMs: typeof latency === "number" ? latency : 0,
    fullMs: fullFrom(queueMs, serviceMs),
    serviceMs,
    freeAt: 0,
  };
}

/**
 * The bound of the queue counts calls: at most as many as are served within `queueMs` may be ahead.
 * The call in service may be nearly done, and sums of service times are not exact.
 */
function fullFrom(queueMs: number, serviceMs: number): number {
  return (Math.ceil(queueMs / serviceMs) - 1 + 1e-6) * serviceMs;
}

/** When the server will respond, or -1 if its queue is full. */
export function serve(server: FleetServer, now: number): number {
  if (server.serviceMs === 0) return now + server.latencyMs;
  const beginAt = Math.max(now, server.freeAt);
  if (beginAt > now && beginAt - now > server.fullMs) return -1;
  server.freeAt = beginAt + server.serviceMs;
  return server.freeAt + server.latencyMs;
}

/** A server that counts the calls ahead of a new one exactly, for calls at fractions of a ms. */
export interface CountingServer extends FleetServer {
  readonly queueMs: number;
  /** When each accepted call is served. Calls before `first` are done. */
  servedAt: number[];
  first: number;
}

export function createCountingServer(server: ServerDocument): CountingServer {
  const { queueMs = Number.POSITIVE_INFINITY } = server;
  return { ...createFleetServer(server), queueMs, servedAt: [], first: 0 };
}

/** As `serve`, by the rule of `arrivalResult`. */
export function serveCounted(server: CountingServer, now: number): number {
  const { servedAt, serviceMs, queueMs, latencyMs } = server;
  if (serviceMs === 0) return now + latencyMs;
  while ((servedAt[server.first] ?? Number.POSITIVE_INFINITY) <= now) server.first++;
  if (server.first > 1024 && 2 * server.first > servedAt.length) {
    server.servedAt = servedAt.slice(server.first);
    server.first = 0;
  }
  const ahead = server.servedAt.length - server.first;
  if (ahead > 0 && ahead * serviceMs >= queueMs) return -1;
  server.freeAt = Math.max(now, server.freeAt) + serviceMs;
  server.servedAt.push(server.freeAt);
  return server.freeAt + latencyMs;
}
