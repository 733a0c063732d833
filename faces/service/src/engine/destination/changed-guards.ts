/**
 * Changed guards: a destination's guards under another document. A guard whose options are the same
 * goes on with what it has learnt; only one whose options changed starts anew. A circuit that is open
 * stays so either way: it is the destination that is not well.
 */
import { adoptBreaker, type GuardOptions, type Guards } from "@redrive/core";

/** Guards, and what they were made by. */
export interface MadeGuards {
  readonly guards: Guards;
  readonly options: GuardOptions;
}

/** `fresh`, but for those of `standing` that were made by the same options. */
export function keepUnchanged(standing: MadeGuards, fresh: MadeGuards): Guards {
  const kept = <Name extends keyof GuardOptions>(name: Name): Guards[Name] =>
    isSame(standing.options[name], fresh.options[name])
      ? standing.guards[name]
      : fresh.guards[name];
  return {
    retryBudget: kept("retryBudget"),
    breaker: kept("breaker"),
    concurrency: kept("concurrency"),
    rate: kept("rate"),
    adaptiveRate: kept("adaptiveRate"),
    throttle: kept("throttle"),
    // It has no options.
    latency: standing.guards.latency,
  };
}

/** What no new guard may forget: a circuit that is open. */
export function keepOpen(from: Guards, to: Guards, now: number): void {
  if (from.breaker && to.breaker && from.breaker !== to.breaker) {
    adoptBreaker(to.breaker, now, from.breaker);
  }
}

/** Options are flat; the order in which a document names them means nothing. */
function isSame(one: object | undefined, other: object | undefined): boolean {
  return spelled(one) === spelled(other);
}

function spelled(options: object | undefined): string {
  const entries = Object.entries(options ?? {}).map(([name, value]) =>
    JSON.stringify([name, value]),
  );
  return options === undefined ? "" : entries.sort().join();
}
