/**
 * Changed guards: the guards of a destination after its document has changed. A guard with unchanged
 * options keeps its state; a guard with changed options starts fresh. An open circuit stays open in
 * both cases, because the destination is still failing.
 */
import { adoptBreaker, createConcurrency, type GuardOptions, type Guards } from "@redrive/core";

/** Guards, and the options that created them. */
export interface ConfiguredGuards {
  readonly guards: Guards;
  readonly options: GuardOptions;
}

/** The guards of `next`, except that a guard with the same options is taken from `current`. */
export function keepUnchanged(current: ConfiguredGuards, next: ConfiguredGuards): Guards {
  const kept = <Name extends keyof GuardOptions>(name: Name): Guards[Name] =>
    isSame(current.options[name], next.options[name]) ? current.guards[name] : next.guards[name];
  return {
    retryBudget: kept("retryBudget"),
    breaker: kept("breaker"),
    concurrency: kept("concurrency"),
    rate: kept("rate"),
    adaptiveRate: kept("adaptiveRate"),
    throttle: kept("throttle"),
    // The latency histogram has no options.
    latency: current.guards.latency,
  };
}

/** Copies an open circuit to a new breaker. */
export function keepOpen(from: Guards, to: Guards, now: number): void {
  if (from.breaker && to.breaker && from.breaker !== to.breaker) {
    adoptBreaker(to.breaker, now, from.breaker);
  }
}

/** New guards would behave the same: the circuit is closed, and the limit is not below the initial one. */
export function areLikeNew({ breaker, concurrency }: Partial<Guards>, at: number): boolean {
  if (breaker !== undefined && breaker.state !== "CLOSED") return false;
  if (concurrency === undefined) return true;
  const { limit } = createConcurrency(concurrency.options, at).estimate;
  return concurrency.ramp === 0 && concurrency.estimate.limit >= limit;
}

/** Options are flat. The order of the fields in a document has no meaning. */
function isSame(one: object | undefined, other: object | undefined): boolean {
  return canonical(one) === canonical(other);
}

function canonical(options: object | undefined): string {
  const entries = Object.entries(options ?? {}).map(([name, value]) =>
    JSON.stringify([name, value]),
  );
  return options === undefined ? "" : entries.sort().join();
}
