/**
 * Call: carries out the decisions of core for one wrapped call: runs attempts, waits between them,
 * ends when told to. It decides nothing about retrying by itself. Calls to a destination extend it
 * with guards (`guarded-call.ts`).
 */
import {
  assertKey,
  assertRange,
  type CallHistory,
  type CallRequest,
  type Cancel,
  type Decision,
  type DelaySource,
  decide,
  type Gates,
  type HoldDecision,
  isRepeatable,
  judge,
  OPEN_GATES,
  type Outcome,
  type Policy,
  type Random,
  type StopReason,
  SUCCESS,
  singleAttempt,
  type Verdict,
} from "@redrive/core";
import { Attempt } from "./attempt.ts";
import { requestOf } from "./call-request.ts";
import { type CallEvent, notify, type Told } from "./events.ts";
import { ABORTED, FAULT, isThenable, NO_ENDING, outcomeBy, outcomeOf } from "./judgement.ts";
import { type Layer, layerAbove } from "./layer.ts";
import type { Attempted, CallOptions, Ending } from "./options.ts";
import type { Setting } from "./setting.ts";
import { errorOf, isOwnError, newStory, recordOf, type Story } from "./story.ts";

export class Call<T> implements Layer {
  readonly where = "process";
  readonly setting: Setting;
  readonly options: CallOptions<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (reason: unknown) => void;
  readonly startMs: number;
  policy: Policy;
  /** How the latest attempt ended. */
  lastEnding: Ending<T> | undefined = undefined;
  protected readonly fn: Attempted<T>;
  protected made = 0;
  protected current: Attempt<T> | undefined = undefined;
  protected over = false;
  /** Made when something fails. */
  private story: Story | undefined = undefined;
  /** Of the latest wait; undefined while the call has never waited for anything. */
  private cancelWait: Cancel | undefined = undefined;
  private outer: Layer | undefined = undefined;

  constructor(
    setting: Setting,
    fn: Attempted<T>,
    options: CallOptions<T>,
    resolve: (value: T) => void,
    reject: (reason: unknown) => void,
  ) {
    this.setting = setting;
    this.policy = setting.policy;
    this.fn = fn;
    this.options = options;
    this.resolve = resolve;
    this.reject = reject;
    this.startMs = setting.ticker.turn.nowMs();
  }

  /** Begins the first attempt, unless the call is refused or already aborted. */
  start(): void {
    const { signal } = this.options;
    if (signal?.aborted) {
      this.reject(signal.reason);
      return;
    }
    this.prepare(signal);
    if (this.isBound() && this.leftMs() <= 0) this.giveUp("budget", NO_ENDING);
    else {
      signal?.addEventListener("abort", this);
      this.proceed();
    }
  }

  /** What is known of the call before it begins may make it smaller, or refuse it. */
  private prepare(signal: AbortSignal | undefined): void {
    const { deadlineAt, once } = this.options;
    if (deadlineAt !== undefined) assertRange("deadlineAt", deadlineAt, 0, Number.MAX_SAFE_INTEGER);
    const above = layerAbove(signal);
    if (above !== undefined) this.enterUnder(above);
    if (once) this.policy = singleAttempt(this.policy);
    if (this.policy.requireIdempotencyKey) assertKey(this.policy, this.request());
  }

  /** True if a layer below this one should leave retrying to it, or to one further above. */
  get retries(): boolean {
    if (this.outer?.retries) return true;
    return this.policy.maxAttempts > 1 && isRepeatable(this.request());
  }

  /** When the whole call must have ended; epoch ms. */
  get deadlineAt(): number {
    const { clock } = this.setting;
    const budgetAt = clock.now() - this.elapsedMs() + this.policy.totalBudgetMs;
    const { deadlineAt } = this.request();
    return deadlineAt === undefined ? budgetAt : Math.min(budgetAt, deadlineAt);
  }

  /** Where a copy should go; only destinations name endpoints. */
  endpointOf(_copy: number): string | undefined {
    return undefined;
  }

  /** The next attempt's turn has come. */
  protected proceed(): void {
    this.launch(0);
  }

  /** Runs the function once. */
  protected launch(copy: number): Attempt<T> {
    const { ticker } = this.setting;
    if (copy === 0) this.made++;
    const startMs = this.isAtStart(copy) ? this.startMs : ticker.turn.nowMs();
    const attempt = new Attempt(this, this.made, startMs, this.timeoutMs(copy), copy);
    if (copy === 0) this.current = attempt;
    ticker.add(attempt);
    this.began(attempt);
    this.invoke(attempt);
    return attempt;
  }

  protected began(_attempt: Attempt<T>): void {} // Guarded calls note what they hold for it.

  private invoke(attempt: Attempt<T>): void {
    let result: T | PromiseLike<T>;
    try {
      result = this.fn(attempt);
    } catch (error) {
      this.failed(attempt, error);
      return;
    }
    if (isThenable(result)) {
      result.then(
        (value) => this.returned(attempt, value),
        (error: unknown) => this.failed(attempt, error),
      );
    } else this.returned(attempt, result);
  }

  returned(attempt: Attempt<T>, value: T): void {
    if (attempt.settled) return;
    if (this.options.classify === undefined) this.succeed(attempt, value);
    else this.judged(attempt, { value }, SUCCESS);
  }

  failed(attempt: Attempt<T>, error: unknown): void {
    if (!attempt.settled) this.judged(attempt, { error }, outcomeOf(error));
  }

  /** A classifier that throws is a mistake in a program: the call ends with what it threw. */
  private judged(attempt: Attempt<T>, ending: Ending<T>, seen: Outcome): void {
    let outcome: Outcome;
    try {
      outcome = outcomeBy(this.options.classify, ending, attempt.attempt, seen);
    } catch (error) {
      this.fail(attempt, { error }, FAULT);
      return;
    }
    const isValue = "value" in ending && judge(this.policy, outcome) === "success";
    if (isValue) this.succeed(attempt, ending.value);
    else this.fail(attempt, ending, outcome);
  }

  private fail(attempt: Attempt<T>, ending: Ending<T>, outcome: Outcome): void {
    const verdict = judge(this.policy, outcome);
    this.settle(attempt, outcome, verdict);
    if (!this.over) this.ended(attempt, ending, outcome, verdict);
  }

  private succeed(attempt: Attempt<T>, value: T): void {
    this.settle(attempt, SUCCESS, "success");
    if (this.over) return;
    this.finish();
    this.succeeded(value);
    if (this.listens()) {
      const durationMs = this.elapsedMs();
      this.tell({ type: "success", attempt: attempt.attempt, durationMs });
    }
    this.resolve(value);
  }

  /** The call has its value. Destinations count and remember. */
  protected succeeded(_value: T): void {}

  /** An attempt is no longer under way. Guarded calls leave their guards here. */
  protected settle(attempt: Attempt<T>, _outcome: Outcome, _verdict: Verdict): void {
    attempt.settle();
    this.setting.ticker.remove(attempt);
  }

  /** The attempt failed: what now? */
  protected ended(
    attempt: Attempt<T>,
    ending: Ending<T>,
    outcome: Outcome,
    verdict: Verdict,
  ): void {
    this.lastEnding = ending;
    const now = this.setting.ticker.turn.now();
    const throttled = verdict === "throttled";
    const decision = this.decide(outcome, throttled, now);
    const isQuiet = decision.kind === "stop" && isOwnError(this.made, decision.reason, ending);
    if (!isQuiet || this.listens()) this.record(attempt, ending, outcome, verdict, decision, now);
    this.carryOut(decision, throttled, ending, now);
  }

  private decide(outcome: Outcome, throttled: boolean, now: number): Decision {
    const [gates, random] = [this.gates(now, throttled), this.chance()];
    return decide(this.policy, this.request(), this.history(now), outcome, gates, now, random);
  }

  /** A call without attempts left draws no more, so it needs no stream of its own. */
  private chance(): Random {
    const isLast = this.made >= this.policy.maxAttempts;
    return isLast ? this.setting.random : this.storySoFar().random;
  }

  private storySoFar(): Story {
    this.story ??= newStory(this.setting.random, this.options.idempotencyKey);
    return this.story;
  }

  private carryOut(decision: Decision, throttled: boolean, ending: Ending<T>, now: number): void {
    if (decision.kind === "stop") this.giveUp(decision.reason, ending);
    else if (decision.kind === "hold") this.holdBack(decision, throttled, now);
    else if (this.drawRetry(now, throttled)) {
      this.putOff(decision.ownDelayMs, decision.delayMs, decision.source);
      this.wait(decision.delayMs, () => this.proceed());
    } else this.giveUp("retry-budget", ending);
  }

  /** There will be another attempt. */
  protected putOff(ownDelayMs: number, delayMs: number, source: DelaySource): void {
    this.storySoFar().previousDelayMs = ownDelayMs;
    if (this.listens()) this.tell({ type: "retry", attempt: this.made + 1, delayMs, source });
  }

  /** A gate is shut and the call is patient. Only destinations have gates. */
  protected holdBack(_decision: HoldDecision, _throttled: boolean, _now: number): void {}

  protected wait(delayMs: number, then: () => void): void {
    this.cancelWait = this.setting.clock.alarm(delayMs, then);
  }

  protected stopWaiting(): void {
    this.cancelWait?.();
  }

  /** What the destination's guards say; a call without a destination has none. */
  protected gates(_now: number, _throttled: boolean): Gates {
    return OPEN_GATES;
  }

  /** Draws on the retry budget, where there is one. */
  protected drawRetry(_now: number, _throttled: boolean): boolean {
    return true;
  }

  protected giveUp(told: StopReason, ending: Ending<T>): void {
    // An error that the caller judged a success is still no value to resolve with.
    const reason = told === "succeeded" ? "not-retryable" : told;
    this.finish();
    const error = this.keeps(ending) ? undefined : this.errorFor(reason, ending);
    if (this.listens()) this.tell({ type: "give-up", reason, attempts: this.made, error });
    this.conclude(reason, ending, error);
  }

  /** True if the last attempt's value is what the caller wants, failure or not. */
  protected keeps(ending: Ending<T>): ending is { readonly value: T } {
    return this.options.keepLast === true && "value" in ending;
  }

  /** The last word; a destination may have a fallback. */
  protected conclude(_reason: StopReason, ending: Ending<T>, error: unknown): void {
    if (this.keeps(ending)) this.resolve(ending.value);
    else this.reject(error);
  }

  protected history(now: number): CallHistory {
    const previousDelayMs = this.story?.previousDelayMs ?? 0;
    return { attempt: this.made, startedAt: now - this.elapsedMs(), previousDelayMs };
  }

  protected errorFor(reason: StopReason, ending: Ending<T>): unknown {
    return errorOf(this.setting.name, this.made, reason, ending, this.story?.records ?? []);
  }

  /** Writes a failed attempt down, and tells of it. */
  protected record(
    { attempt, startMs }: Attempt<T>,
    ending: Ending<T>,
    outcome: Outcome,
    verdict: Verdict,
    decision: Decision,
    now: number,
  ): void {
    const durationMs = Math.floor(this.setting.ticker.turn.nowMs() - startMs);
    const record = recordOf(attempt, durationMs, ending, outcome, verdict, decision, now);
    this.storySoFar().records.push(record);
    if (!this.listens()) return;
    const { startedAt: _, waitMs: __, ...told } = record;
    this.tell({ type: "attempt-failed", ...told, verdict });
  }

  /** Nothing more will happen: no wait, no listener. */
  protected finish(): void {
    this.over = true;
    this.stopWaiting();
    this.options.signal?.removeEventListener("abort", this);
  }

  /** Abort always wins: what runs is cut off, what waits is woken. */
  handleEvent(): void {
    const reason: unknown = this.options.signal?.reason;
    this.cutOff(reason);
    this.finish();
    if (this.listens()) {
      this.tell({ type: "give-up", reason: "aborted", attempts: this.made, error: reason });
    }
    this.reject(reason);
  }

  protected cutOff(reason: unknown): void {
    const { current } = this;
    if (current === undefined || current.settled) return;
    // First the abort, then the slot: who is let in must not meet the one that goes.
    current.abort(reason);
    this.settle(current, ABORTED, "aborted");
  }

  private enterUnder(above: Layer): void {
    this.outer = above;
    if (!above.retries || this.policy.maxAttempts === 1) return;
    if (this.options.nested === "retry") return;
    this.policy = singleAttempt(this.policy);
    if (this.listens()) this.tell({ type: "yield", to: above.where });
  }

  /** What core is told of the call. */
  protected request(): CallRequest {
    return requestOf(this.options, this.outer?.deadlineAt);
  }

  elapsedMs(): number {
    return Math.floor(this.setting.ticker.turn.nowMs() - this.startMs);
  }

  /** True for an attempt that begins with the call itself: its time is already known. */
  private isAtStart(copy: number): boolean {
    return copy === 0 && this.cancelWait === undefined;
  }

  private isBound(): boolean {
    return this.options.deadlineAt !== undefined || this.outer?.deadlineAt !== undefined;
  }

  /** What is left of the whole call. */
  protected leftMs(): number {
    return this.deadlineAt - this.setting.clock.now();
  }

  /** An attempt may take its own timeout, or what is left of the whole call if that is less. */
  private timeoutMs(copy: number): number {
    const { attemptTimeoutMs, totalBudgetMs } = this.policy;
    const isWhole = this.isAtStart(copy) && !this.isBound();
    const leftMs = isWhole ? totalBudgetMs : Math.floor(this.leftMs());
    return Math.max(1, Math.min(attemptTimeoutMs, leftMs));
  }

  protected listens(): boolean {
    return this.options.onEvent !== undefined;
  }

  protected tell(event: Told): void {
    this.publish(this.eventOf(event));
  }

  protected eventOf(event: object): CallEvent {
    const { name, clock } = this.setting;
    const where = name === undefined ? {} : { destination: name };
    return { at: clock.now(), ...where, ...event } as CallEvent;
  }

  protected publish(event: CallEvent): void {
    notify(this.options.onEvent, event);
  }
}
