/**
 * Hedge race: an attempt and its copies, of which the first success wins. The losers are aborted on
 * the wire; a failure loses only if nothing else is still running.
 */
import {
  type Cancel,
  HEDGE_MIN_SAMPLES,
  type HedgeOptions,
  hedgeQuantile,
  type Latency,
  latencyCalls,
  quantileMs,
  RedriveError,
} from "@redrive/core";
import type { Attempt } from "./attempt.ts";
import type { GuardedCall } from "./guarded-call.ts";

/** How long to wait before a copy leaves; undefined while too little is known. */
export function hedgeAfterMs(
  options: HedgeOptions,
  latency: Latency,
  now: number,
): number | undefined {
  const quantile = hedgeQuantile(options.after);
  if (quantile === undefined) return options.after as number;
  if (latencyCalls(latency) < HEDGE_MIN_SAMPLES) return undefined;
  return quantileMs(latency, now, quantile);
}

export class HedgeRace<T> {
  private readonly call: GuardedCall<T>;
  private readonly options: HedgeOptions;
  private readonly afterMs: number;
  private readonly runners: Attempt<T>[];
  private cancel: Cancel;

  constructor(call: GuardedCall<T>, first: Attempt<T>, options: HedgeOptions, afterMs: number) {
    this.call = call;
    this.options = options;
    this.afterMs = afterMs;
    this.runners = [first];
    this.cancel = this.arm();
  }

  private arm(): Cancel {
    return this.call.setting.clock.alarm(this.afterMs, () => this.sendNext());
  }

  private sendNext(): void {
    const copy = this.runners.length;
    const runner = this.call.sendCopy(copy, this.afterMs);
    if (runner === undefined) return;
    this.runners.push(runner);
    // The function may have ended the whole call before it returned.
    if (this.call.isOver) this.end();
    else if (copy < this.options.max) this.cancel = this.arm();
  }

  /** True while any runner has not ended. */
  isOn(): boolean {
    return this.runners.some((runner) => !runner.settled);
  }

  /** No further copies. */
  stop(): void {
    this.cancel();
  }

  /** The race is decided: whoever still runs is cut off. */
  end(reason: unknown = undefined): void {
    this.cancel();
    for (const runner of this.runners) {
      if (!runner.settled) this.call.drop(runner, reason ?? lost());
    }
  }
}

function lost(): RedriveError {
  return new RedriveError("HEDGE_LOST", "another copy of this call was answered first");
}
