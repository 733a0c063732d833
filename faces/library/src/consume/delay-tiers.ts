/**
 * Delay tiers: the fixed delays of a broker that keeps one queue or topic for each delay. Messages with
 * the same delay become due in the order in which they arrive, so a message with a long delay never
 * blocks one with a short delay.
 */
import { invalidArgument } from "@redrive/core";

/** 2^32 - 1: the longest time to live of a RabbitMQ queue. */
const MAX_TIER_MS = 4_294_967_295;

const FIRST_MS = 100;

/** 100, 150, 200, 300, 400, 600, ... ms: a wait is at most half longer than it was asked for. */
export const DEFAULT_TIERS: readonly number[] = defaultTiers();

function defaultTiers(): readonly number[] {
  const tiers: number[] = [];
  for (let ms = FIRST_MS; ms <= MAX_TIER_MS; ms *= 2) tiers.push(ms, ms * 1.5);
  return tiers.filter((ms) => ms <= MAX_TIER_MS);
}

/** The shortest tier that is not shorter than the delay; the longest one if all are. */
export function tierFor(tiers: readonly number[], delayMs: number): number {
  let low = 0;
  let high = tiers.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((tiers[middle] ?? 0) < delayMs) low = middle + 1;
    else high = middle;
  }
  return tiers[low] ?? delayMs;
}

/** Checks a caller's own tiers: whole milliseconds, each longer than the one before. */
export function assertTiers(tiers: readonly number[]): void {
  const isGood = (ms: number, index: number) =>
    Number.isInteger(ms) && ms > (tiers[index - 1] ?? 0) && ms <= MAX_TIER_MS;
  if (Array.isArray(tiers) && tiers.length > 0 && tiers.every(isGood)) return;
  throw invalidArgument("tiersMs must be a list of whole milliseconds in ascending order", tiers);
}
