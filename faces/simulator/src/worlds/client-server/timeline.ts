/**
 * Timeline: the condition of a tier at an instant, computed from the phases of a scenario. It
 * changes only at the edges of phases, so it is computed again only after `untilMs`.
 */
import type { PhaseDocument } from "../../scenario/scenario-document.ts";

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
