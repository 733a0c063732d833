/**
 * Herd: many clients fail at one instant, and all their attempts fail. Counts when their retries
 * arrive, per window, without a server or a queue. A peak depends on the width of the window, so
 * the result always includes it.
 */
import { assertRange, type PolicyDocument, type PresetName } from "@redrive/core";
import { drawsOf, nextDraw } from "../engine/draws.ts";
import { nextWait, policyOf, type Waits, waitsOf } from "./waits.ts";

export interface HerdOptions {
  /** 1 to 2 000 000. Default: 10 000. */
  readonly clients?: number;
  /**
   * Width of the window for counting arrivals. 1 to 86 400 000 ms. Default: a tenth of the first
   * ceiling.
   */
  readonly windowMs?: number;
  readonly seed?: number | string;
}

export interface Herd {
  readonly clients: number;
  readonly windowMs: number;
  /** Total number of retries, without the first calls, which all start at 0. */
  readonly retries: number;
  /**
   * The window with the most arrivals: their number, as a share of the clients, and when it begins.
   */
  readonly peak: { readonly count: number; readonly share: number; readonly atMs: number };
  /** When the last retry arrives. */
  readonly lastAtMs: number;
  /** Arrivals per window, for at most the first 4096 windows. */
  readonly arrivals: Float64Array;
}

/** Windows in the result. */
const MAX_WINDOWS = 4096;

export function herd(policy: PolicyDocument | PresetName, options: HerdOptions = {}): Herd {
  const { clients = 10_000, seed = 1 } = options;
  assertRange("clients", clients, 1, 2_000_000);
  const waits = waitsOf(policyOf(policy));
  const firstMs = waits.compiled.ceilingMs(1);
  const { windowMs = Math.max(1, Math.floor(firstMs / 10)) } = options;
  assertRange("windowMs", windowMs, 1, 86_400_000);
  return countRetries(waits, clients, windowMs, drawsOf(seed, "jitter").state);
}

function countRetries(waits: Waits, clients: number, windowMs: number, state: Int32Array): Herd {
  const counts: Counts = {
    windowMs,
    dense: new Float64Array(MAX_WINDOWS),
    rest: new Map(),
    retries: 0,
    lastAtMs: 0,
  };
  // Without randomness all clients behave as the first one.
  const followed = waits.compiled.draws ? clients : 1;
  for (let client = 0; client < followed; client++) followClient(waits, state, counts);
  if (followed < clients) multiply(counts, clients);
  const { dense, retries, lastAtMs } = counts;
  const peak = peakOf(dense, counts.rest);
  const shown = Math.min(MAX_WINDOWS, Math.floor(lastAtMs / windowMs) + 1);
  return {
    clients,
    windowMs,
    retries,
    peak: { count: peak.count, share: peak.count / clients, atMs: peak.window * windowMs },
    lastAtMs,
    arrivals: dense.slice(0, shown),
  };
}

/** Arrivals per window: the first 4096 windows in an array, the rest in a map. */
interface Counts {
  readonly windowMs: number;
  readonly dense: Float64Array;
  readonly rest: Map<number, number>;
  retries: number;
  lastAtMs: number;
}

function followClient(waits: Waits, state: Int32Array, counts: Counts): void {
  let atMs = 0;
  let previousMs = 0;
  for (let attempt = 1; ; attempt++) {
    const draw = waits.compiled.draws ? nextDraw(state) : 0;
    const waitMs = nextWait(waits, attempt, atMs, previousMs, draw);
    if (waitMs < 0) return;
    previousMs = waitMs;
    atMs += waitMs;
    countArrival(counts, atMs);
  }
}

function multiply(counts: Counts, clients: number): void {
  counts.retries *= clients;
  for (const [window, count] of counts.dense.entries()) counts.dense[window] = count * clients;
  for (const [window, count] of counts.rest) counts.rest.set(window, count * clients);
}

function countArrival(counts: Counts, atMs: number): void {
  const { dense, rest } = counts;
  const window = Math.floor(atMs / counts.windowMs);
  if (window < MAX_WINDOWS) dense[window] = (dense[window] as number) + 1;
  else rest.set(window, (rest.get(window) ?? 0) + 1);
  counts.retries++;
  if (atMs > counts.lastAtMs) counts.lastAtMs = atMs;
}

function peakOf(dense: Float64Array, rest: Map<number, number>): { count: number; window: number } {
  const peak = { count: 0, window: 0 };
  const consider = (count: number, window: number) => {
    if (count > peak.count) Object.assign(peak, { count, window });
  };
  dense.forEach(consider);
  for (const [window, count] of rest) consider(count, window);
  return peak;
}
