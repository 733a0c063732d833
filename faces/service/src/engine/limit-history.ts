/**
 * Limit history: the latest changes of a destination's concurrency limit on this node, with the reason
 * for each. A limit can move with every call, so steps for the same reason that follow each other are
 * one change.
 */
import {
  type ConcurrencyOptions,
  concurrencyLimit,
  type Guards,
  type Outcome,
} from "@redrive/core";

type Concurrency = NonNullable<Guards["concurrency"]>;

/**
 * `successes`: calls succeeded while at least half of the limit was used. `overload`: the target
 * refused calls for overload, or calls timed out. `latency`: calls became faster or slower, or the
 * target refused many of them.
 * `ramp-started`: a pause, a Retry-After or an open circuit is over, so the limit restarts at 1.
 * `ramp`: one more per success, or after a time without the end of a call, until the old limit.
 * `document`: another document.
 */
type LimitCause = "successes" | "overload" | "latency" | "ramp-started" | "ramp" | "document";

export interface LimitChange {
  /** When the first and the last of its steps happened; epoch ms. */
  readonly sinceAt: number;
  readonly at: number;
  readonly from: number;
  readonly to: number;
  readonly cause: LimitCause;
  /** The last refusal or error before the last step, such as 503 or timeout; null: none caused it. */
  readonly detail: string | null;
  readonly steps: number;
}

/** Changes that are kept: about 10 kB. */
export const MAX_CHANGES = 60;
/** Steps this close to each other are one change. */
const JOIN_MS = 10_000;

interface Known {
  readonly limit: number;
  readonly ramp: number;
  readonly options: ConcurrencyOptions;
}

export class LimitHistory {
  #known: Known | undefined;
  /** The last sign of overload. A cut follows a round of calls, which may end with a success. */
  #overload: Outcome | undefined;
  readonly #changes: LimitChange[] = [];

  /** The oldest first. */
  get changes(): readonly LimitChange[] {
    return this.#changes;
  }

  /**
   * Call it before and after the end of each attempt, and then with its outcome if that is a sign of
   * overload. The first call only learns the limit.
   */
  follow(concurrency: Concurrency | undefined, now: number, overload?: Outcome): void {
    this.#overload = overload ?? this.#overload;
    if (concurrency === undefined) {
      this.#known = undefined;
      return;
    }
    const limit = concurrencyLimit(concurrency);
    const { ramp, options } = concurrency;
    const before = this.#known;
    if (before?.limit === limit && before.ramp === ramp && before.options === options) return;
    this.#known = { limit, ramp, options };
    if (before === undefined || before.limit === limit) return;
    this.#add(before.limit, limit, now, causeOf(before, this.#known));
  }

  #add(from: number, to: number, at: number, cause: LimitCause): void {
    const detail = cause === "overload" ? detailOf(this.#overload) : null;
    const last = this.#changes.at(-1);
    if (last !== undefined && isContinued(last, { from, to, at, cause })) {
      const steps = last.steps + 1;
      const { sinceAt, from: first } = last;
      this.#changes[this.#changes.length - 1] = {
        sinceAt,
        at,
        from: first,
        to,
        cause,
        detail,
        steps,
      };
      return;
    }
    this.#changes.push({ sinceAt: at, at, from, to, cause, detail, steps: 1 });
    if (this.#changes.length > MAX_CHANGES) this.#changes.shift();
  }
}

/** The same reason, in the same direction, soon after. */
function isContinued(
  last: LimitChange,
  next: Pick<LimitChange, "from" | "to" | "at" | "cause">,
): boolean {
  const isSameWay = last.to > last.from === next.to > next.from;
  return last.cause === next.cause && isSameWay && next.at - last.at <= JOIN_MS;
}

function causeOf(before: Known, after: Known): LimitCause {
  if (before.options !== after.options) return "document";
  const isRestarted = after.ramp === 1 && before.ramp > 2;
  if (isRestarted || (before.ramp === 0 && after.ramp > 0)) return "ramp-started";
  if (before.ramp > 0) return "ramp";
  const { algorithm } = after.options;
  if (algorithm === "GRADIENT" || algorithm === "VEGAS") return "latency";
  return after.limit > before.limit ? "successes" : "overload";
}

function detailOf(outcome: Outcome | undefined): string | null {
  if (outcome === undefined) return null;
  if (outcome.kind === "status") return String(outcome.status);
  if (outcome.kind === "grpc") return outcome.code;
  return outcome.kind === "error" ? outcome.errorClass : null;
}
