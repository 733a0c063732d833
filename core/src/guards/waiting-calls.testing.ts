/** Shared by the tests of waiting calls: a minimal caller of the queue that records what happens to each call. */
import { classifyOutcome, type Outcome, SUCCESS } from "../decide/outcome.ts";
import { POLICY } from "./admission.testing.ts";
import type { Admission, AdmissionRequest, Permit } from "./admission.ts";
import type { Breaker } from "./breaker.ts";
import type { ConcurrencyOptions } from "./concurrency.ts";
import { WaitingCalls, type WaitingEntry } from "./waiting-calls.ts";

export const NEVER = Number.POSITIVE_INFINITY;

export const slots = (max: number, queue = 0): ConcurrencyOptions => ({
  algorithm: "FIXED",
  max,
  maxRetries: max,
  queue,
  rampFactor: 3,
});

/** A minimal caller of the queue: it records what happens to each call. */
export class QueueUser {
  readonly waiting: WaitingCalls<string>;
  readonly entries = new Map<string, WaitingEntry<string>>();
  readonly permits = new Map<string, Permit>();
  readonly breakers = new Map<string, Breaker | undefined>();
  readonly log: string[] = [];
  readonly late = new Set<string>();
  /** Calls of `admission.enter`. */
  enters = 0;
  /** Called after a call has been admitted. */
  onAdmitted: (call: string, now: number) => void = () => undefined;
  readonly admission: Admission;

  constructor(admission: Admission) {
    this.admission = admission;
    const enter = admission.enter.bind(admission);
    admission.enter = (...asked) => {
      this.enters++;
      return enter(...asked);
    };
    this.waiting = new WaitingCalls(admission, {
      decideEntry: (call) =>
        this.late.has(call)
          ? { kind: "stop", status: "EXHAUSTED", reason: "held" }
          : { kind: "go" },
      admitted: (call, permit, now) => this.start(call, permit, now),
      refused: (call, reason) => this.log.push(`${call} ${reason}`),
    });
  }

  private start(call: string, permit: Permit, now: number): void {
    this.permits.set(call, permit);
    this.log.push(call);
    this.onAdmitted(call, now);
  }

  /** A call arrives. It starts, waits or is refused; if its wait already has an end, the queue wakes. */
  arrive(call: string, request: AdmissionRequest, now: number, breaker?: Breaker): void {
    const { admission, waiting } = this;
    const asked = breaker ?? admission.guards.breaker;
    this.breakers.set(call, asked);
    const permit = waiting.enter(request, asked, now);
    if (permit !== undefined) {
      this.start(call, permit, now);
      return;
    }
    const { refusal } = admission;
    const entry = refusal === "hold" ? waiting.join(call, request, asked) : undefined;
    if (entry === undefined) {
      this.log.push(`${call} ${refusal === "hold" ? "overload" : refusal}`);
      return;
    }
    this.entries.set(call, entry);
    if (waiting.wakeAt <= now) waiting.wake(now);
  }

  end(call: string, now: number, outcome: Outcome = SUCCESS): void {
    const permit = this.permits.get(call) as Permit;
    this.permits.delete(call);
    const verdict = classifyOutcome(POLICY, outcome);
    const breaker = this.breakers.get(call);
    this.admission.leave(permit, breaker, POLICY, outcome, verdict, 1, now);
    this.waiting.wake(now);
  }

  remove(call: string): void {
    this.waiting.remove(this.entries.get(call) as WaitingEntry<string>);
  }

  /** What has happened since the last call of this function. */
  get recentLog(): string[] {
    return this.log.splice(0);
  }
}

export const names = (letter: string, count: number) =>
  Array.from({ length: count }, (_, n) => `${letter}${n}`);
