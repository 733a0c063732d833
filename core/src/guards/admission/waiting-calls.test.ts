/** Tests of waiting calls: order, cost, wakes and the queue. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { classifyOutcome, type Outcome, SUCCESS } from "../../decide/outcome.ts";
import { adoptBreaker, type Breaker, createBreaker } from "../breaker.ts";
import type { ConcurrencyOptions } from "../concurrency.ts";
import { TOKEN_BUDGET_DEFAULTS } from "../retry-budget.ts";
import {
  ALL_GUARDS,
  admissionOf,
  always,
  askedFor,
  entered,
  FAILED,
  FIRST,
  leave,
  POLICY,
  patiently,
  RETRY,
  T0,
} from "./admission.testing.ts";
import {
  type Admission,
  type AdmissionRequest,
  type Permit,
  THROTTLE_RECHECK_MS,
} from "./admission.ts";
import { WaitingCalls, type WaitingEntry } from "./waiting-calls.ts";

const NEVER = Number.POSITIVE_INFINITY;

const slots = (max: number, queue = 0): ConcurrencyOptions => ({
  algorithm: "FIXED",
  max,
  maxRetries: max,
  queue,
});

/** A minimal caller of the queue: it records what happens to each call. */
class Face {
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
      mayStart: (call) => !this.late.has(call) || this.log.push(`${call} late`) === 0,
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
  arrive(call: string, applicant: AdmissionRequest, now: number, breaker?: Breaker): void {
    const { admission, waiting } = this;
    const asked = breaker ?? admission.guards.breaker;
    this.breakers.set(call, asked);
    const permit = waiting.enter(applicant, asked, now);
    if (permit !== undefined) {
      this.start(call, permit, now);
      return;
    }
    const { refusal } = admission;
    const entry = refusal === "hold" ? waiting.join(call, applicant, asked) : undefined;
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
  get news(): string[] {
    return this.log.splice(0);
  }
}

const names = (letter: string, count: number) =>
  Array.from({ length: count }, (_, n) => `${letter}${n}`);

describe("order", () => {
  test("calls of a lane start in order of arrival, whatever is removed and whatever ends", () => {
    const anySteps = fc.array(fc.tuple(fc.nat(3), fc.nat(40), fc.nat(20)), { maxLength: 80 });
    fc.assert(
      fc.property(anySteps, (steps) => {
        const face = new Face(
          admissionOf({ concurrency: slots(3, 100), rate: { perSecond: 50, burst: 2 } }),
        );
        const { waiting } = face;
        let now = T0;
        const started: string[] = [];
        for (const [n, [kind, gap, which]] of steps.entries()) {
          now += gap;
          if (waiting.wakeAt <= now) waiting.wake(now);
          const [running] = face.permits.keys();
          if (kind < 2)
            face.arrive(`${kind === 0 ? "f" : "r"}${n}`, kind === 0 ? FIRST : RETRY, now);
          else if (kind === 2 && running !== undefined) face.end(running, now);
          else {
            const queued = [...face.entries.keys()].filter((call) => !started.includes(call));
            const call = queued[which % Math.max(1, queued.length)];
            if (call !== undefined) face.remove(call);
          }
          started.push(...face.news);
        }
        for (const lane of ["f", "r"]) {
          const numbers = started
            .filter((call) => call.startsWith(lane))
            .map((call) => +call.slice(1));
          expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
        }
        const left = [...face.entries.values()].filter(({ isWaiting }) => isWaiting);
        expect(waiting.size).toBe(left.length);
        // No call waits that could start.
        if (waiting.size > 0) {
          waiting.wake(now);
          expect(face.news).toEqual([]);
          expect(waiting.wakeAt).toBeGreaterThan(now);
        }
      }),
      { numRuns: 60 },
    );
  });

  test("after a wake no call at the head of a lane waits that could start", () => {
    const anySteps = fc.array(fc.tuple(fc.nat(5), fc.nat(4), fc.nat(900)), { maxLength: 60 });
    const kinds = [FIRST, RETRY, patiently(FIRST), patiently(RETRY)];
    const retryBudget = { ...TOKEN_BUDGET_DEFAULTS, maxTokens: 28 };
    const rate = { perSecond: 3, burst: 3 };
    fc.assert(
      fc.property(anySteps, (steps) => {
        const face = new Face(
          admissionOf({ retryBudget, rate, concurrency: slots(4, 9) }, { maxGateMs: 900 }),
        );
        const { waiting, admission } = face;
        const breakers = [0, 1, 2].map(() => createBreaker(ALL_GUARDS.breaker, T0));
        let now = T0;
        for (const [n, [what, key, gap]] of steps.entries()) {
          now += gap;
          const applicant = kinds[what];
          const [running] = face.permits.keys();
          if (applicant !== undefined) face.arrive(`c${n}`, applicant, now, breakers[key % 3]);
          else if (running !== undefined) {
            face.end(running, now, [SUCCESS, SUCCESS, FAILED, askedFor(500)][key] ?? SUCCESS);
          }
          waiting.wake(now);
          const heads = [...face.entries.values()].filter(
            ({ isWaiting, previous }) => isWaiting && previous === undefined,
          );
          for (const { applicant: head, lane } of heads) {
            expect(admission.check(head, lane.breaker, now)).toBe("hold");
          }
          if (waiting.size > 0) expect(waiting.wakeAt).toBeGreaterThan(now);
        }
      }),
      { numRuns: 60 },
    );
  });

  test("a call that finds others waiting may not pass them", () => {
    const face = new Face(admissionOf({ rate: { perSecond: 1, burst: 1 } }));
    for (const call of ["a", "b", "c"]) face.arrive(call, FIRST, T0);
    expect(face.news).toEqual(["a"]);
    expect(face.waiting.wakeAt).toBe(T0 + 1000);
    face.arrive("d", FIRST, T0 + 1000);
    face.waiting.wake(T0 + 1000);
    face.waiting.wake(T0 + 2000);
    face.waiting.wake(T0 + 3000);
    expect(face.news).toEqual(["b", "c", "d"]);
    expect([face.waiting.size, face.waiting.wakeAt]).toEqual([0, NEVER]);
  });

  test("a held retry does not block first attempts", () => {
    const retryBudget = { ...TOKEN_BUDGET_DEFAULTS, maxTokens: 14 };
    const face = new Face(admissionOf({ retryBudget, concurrency: slots(9) }));
    // The only token, the trial of this second, and a call that waits for the next trial.
    for (const call of names("r", 3)) face.arrive(call, patiently(RETRY), T0);
    for (const call of names("f", 3)) face.arrive(call, FIRST, T0);
    expect(face.news).toEqual(["r0", "r1", "f0", "f1", "f2"]);
    expect([face.waiting.size, face.waiting.wakeAt]).toEqual([1, T0 + 1000]);
    face.waiting.wake(T0 + 1000);
    expect(face.news).toEqual(["r2"]);
  });

  test("a call that only waits behind others has their hold, until now", () => {
    const retryBudget = { ...TOKEN_BUDGET_DEFAULTS, maxTokens: 14 };
    const { admission, waiting } = new Face(admissionOf({ retryBudget, concurrency: slots(9) }));
    entered(admission, RETRY, T0);
    entered(admission, patiently(RETRY), T0);
    // The trial of this second has been granted as well.
    expect(waiting.enter(patiently(RETRY), undefined, T0)).toBeUndefined();
    waiting.join("r", patiently(RETRY), undefined);
    admission.heldBy = "concurrency";
    expect(waiting.enter(FIRST, undefined, T0)).toBeUndefined();
    expect([admission.refusal, admission.heldBy]).toEqual(["hold", "retry-budget"]);
    expect(admission.heldUntil).toBe(T0);
  });

  test("the oldest call of all lanes that are not held starts first", () => {
    const face = new Face(admissionOf({ concurrency: slots(1, 9) }));
    face.arrive("a", FIRST, T0);
    face.arrive("b", RETRY, T0);
    face.arrive("c", patiently(FIRST), T0);
    face.arrive("d", FIRST, T0);
    for (const call of ["a", "b", "c"]) face.end(call, T0);
    expect(face.news).toEqual(["a", "b", "c", "d"]);
  });

  test("calls with different breakers wait in different lanes", () => {
    const { breaker: options } = ALL_GUARDS;
    const face = new Face(admissionOf({ breaker: options, rate: { perSecond: 1, burst: 1 } }));
    const [sick, well] = [createBreaker(options, T0), createBreaker(options, T0)];
    face.arrive("s0", patiently(FIRST), T0, sick);
    face.end("s0", T0, FAILED);
    expect(sick.state).toBe("OPEN");
    face.arrive("s1", patiently(FIRST), T0 + 1000, sick);
    face.arrive("w1", patiently(FIRST), T0 + 1000, well);
    face.arrive("w2", patiently(FIRST), T0 + 1000, well);
    expect(face.news).toEqual(["s0", "w1"]);
    face.waiting.wake(T0 + 2000);
    expect(face.news).toEqual(["w2"]);
    face.waiting.wake(sick.openUntil);
    expect(face.news).toEqual(["s1"]);
  });
});

describe("cost", () => {
  test("10,000 calls held by a rate of 1,000 per second need about two enters each", () => {
    const face = new Face(admissionOf({ rate: { perSecond: 1000, burst: 1 } }));
    const { waiting } = face;
    for (const call of names("c", 10_000)) face.arrive(call, FIRST, T0);
    face.enters = 0;
    let now = T0;
    while (waiting.size > 0) {
      now = waiting.wakeAt;
      waiting.wake(now);
    }
    expect(face.news).toEqual(names("c", 10_000));
    expect(now - T0).toBe(9999);
    expect(face.enters).toBeLessThan(2 * 10_000 + 10);
  });

  test("10,000 calls that wait for one of ten slots need about two enters each", () => {
    const face = new Face(admissionOf({ concurrency: slots(10, 20_000) }));
    for (const call of names("c", 10_010)) face.arrive(call, FIRST, T0);
    face.enters = 0;
    for (const call of names("c", 10_000)) face.end(call, T0 + 1);
    expect(face.waiting.size).toBe(0);
    expect(face.enters).toBeLessThan(2 * 10_000 + 10);
  });

  test("a thousand keys held by one guard are checked once, not a thousand times", () => {
    const { breaker: options } = ALL_GUARDS;
    const face = new Face(admissionOf({ rate: { perSecond: 1000, burst: 1 } }));
    const { waiting } = face;
    const calls = names("k", 1000);
    for (const call of calls) face.arrive(call, FIRST, T0, createBreaker(options, T0));
    face.enters = 0;
    while (waiting.size > 0) waiting.wake(waiting.wakeAt);
    expect(face.news).toEqual(calls);
    expect(face.enters).toBeLessThan(2 * 1000 + 10);
  });

  test("a thousand keys with open circuits are not checked before one of them changes", () => {
    const { breaker: options } = ALL_GUARDS;
    const face = new Face(admissionOf({}));
    const breakers = names("k", 1000).map(() => createBreaker(options, T0));
    for (const [n, breaker] of breakers.entries()) {
      adoptBreaker(breaker, T0, { state: "OPEN", openUntil: T0 + 5000 + n, openCount: 1 });
      face.arrive(`k${n}`, patiently(FIRST), T0, breaker);
    }
    face.enters = 0;
    face.waiting.wake(T0 + 1);
    expect([face.enters, face.waiting.wakeAt]).toEqual([0, T0 + 5000]);
    const closed = { state: "CLOSED", openUntil: 0, openCount: 0 } as const;
    adoptBreaker(breakers[500] as Breaker, T0 + 1, closed);
    face.waiting.wake(T0 + 1);
    face.waiting.wake(T0 + 5001);
    expect(face.news).toEqual(["k500", "k0", "k1"]);
    // One hour back: the rest of each opening still holds, and no more than that.
    face.waiting.wake(T0 - 3_600_000);
    expect(face.news).toEqual([]);
    expect(face.waiting.wakeAt).toBe(T0 - 3_600_000 + 5002);
  });

  test("removing one of many checks no guard and searches no list", () => {
    const face = new Face(admissionOf({ rate: { perSecond: 1, burst: 1 } }));
    for (const call of names("c", 2000)) face.arrive(call, FIRST, T0);
    face.enters = 0;
    let reads = 0;
    const entry = face.entries.get("c1000") as WaitingEntry<string>;
    for (const other of face.entries.values()) {
      if (other === entry || other === entry.next || other === entry.previous) continue;
      const { next } = other;
      Object.defineProperty(other, "next", { get: () => ++reads && next });
    }
    face.remove("c1000");
    face.remove("c1000");
    expect([face.waiting.size, face.enters, reads]).toEqual([1998, 0, 0]);
  });
});

describe("wakes", () => {
  test("patient calls held by a breaker wake when it closes, and not at the old instant", () => {
    const face = new Face(admissionOf({ breaker: ALL_GUARDS.breaker }, undefined, always(0.5)));
    face.arrive("a", patiently(FIRST), T0);
    face.end("a", T0, FAILED);
    for (const call of ["p", "q", "r"]) face.arrive(call, patiently(FIRST), T0 + 1);
    expect(face.waiting.wakeAt).toBe(T0 + 5000);
    face.waiting.wake(T0 + 5000);
    expect(face.news).toEqual(["a", "p"]);
    expect(face.waiting.wakeAt).toBe(T0 + 10_000);
    face.end("p", T0 + 5100);
    expect(face.news).toEqual(["q", "r"]);
    expect(face.waiting.wakeAt).toBe(NEVER);
  });

  test("a breaker that opens again holds them until its new instant", () => {
    const face = new Face(admissionOf({ breaker: ALL_GUARDS.breaker }, undefined, always(0.5)));
    face.arrive("a", patiently(FIRST), T0);
    face.end("a", T0, FAILED);
    for (const call of ["p", "q"]) face.arrive(call, patiently(FIRST), T0 + 1);
    face.waiting.wake(T0 + 5000);
    face.end("p", T0 + 5100, FAILED);
    expect(face.waiting.wakeAt).toBe(T0 + 15_100);
    face.waiting.wake(T0 + 10_000);
    expect(face.news).toEqual(["a", "p"]);
  });

  test("fail-fast calls that wait for a slot are refused when the breaker opens, patient ones are not", () => {
    const face = new Face(admissionOf({ breaker: ALL_GUARDS.breaker, concurrency: slots(1, 9) }));
    face.arrive("a", FIRST, T0);
    face.arrive("p", patiently(FIRST), T0);
    face.arrive("b", FIRST, T0);
    face.arrive("c", FIRST, T0);
    face.end("a", T0 + 1, FAILED);
    expect(face.news).toEqual(["a", "b circuit-open", "c circuit-open"]);
    expect(face.waiting.size).toBe(1);
    expect(face.waiting.wakeAt).toBeGreaterThan(T0 + 1);
  });

  test("a call whose time is over is skipped, and the next one starts", () => {
    const face = new Face(admissionOf({ concurrency: slots(1, 9) }));
    for (const call of ["a", "b", "c"]) face.arrive(call, FIRST, T0);
    face.late.add("b");
    face.end("a", T0);
    expect(face.news).toEqual(["a", "b late", "c"]);
  });

  test("a call that ends before `admitted` returns lets the next one start, in order", () => {
    const face = new Face(admissionOf({ concurrency: slots(1, 5000) }));
    const calls = names("c", 3000);
    for (const call of calls) face.arrive(call, FIRST, T0);
    face.onAdmitted = (call, now) => face.end(call, now);
    face.end("c0", T0);
    expect(face.news).toEqual(calls);
    expect([face.waiting.size, face.permits.size]).toEqual([0, 0]);
  });

  test("a call that starts another before `admitted` returns does not let it pass the others", () => {
    const face = new Face(admissionOf({ concurrency: slots(1, 9) }));
    for (const call of ["a", "b", "c"]) face.arrive(call, FIRST, T0);
    face.onAdmitted = (call, now) => {
      if (call === "b") face.arrive("d", FIRST, now);
      face.end(call, now);
    };
    face.end("a", T0);
    expect(face.news).toEqual(["a", "b", "c", "d"]);
  });

  test("a handler that throws does not stop later wakes", () => {
    const face = new Face(admissionOf({ concurrency: slots(1, 9) }));
    for (const call of ["a", "b", "c"]) face.arrive(call, FIRST, T0);
    face.onAdmitted = () => {
      throw new Error("broken");
    };
    expect(() => face.end("a", T0)).toThrow("broken");
    face.onAdmitted = () => undefined;
    face.end("b", T0);
    expect(face.news).toEqual(["a", "b", "c"]);
  });

  test("after a Retry-After ends one call starts, and the others follow one by one", () => {
    const options = { concurrency: slots(100, 100) };
    const face = new Face(admissionOf(options, { maxGateMs: 300_000 }));
    face.arrive("a", FIRST, T0);
    face.end("a", T0, askedFor(2000));
    for (const call of names("c", 7)) face.arrive(call, FIRST, T0 + 1);
    expect(face.waiting.wakeAt).toBe(T0 + 2000);
    face.waiting.wake(T0 + 2000);
    expect(face.news).toEqual(["a", "c0"]);
    face.end("c0", T0 + 2001);
    expect(face.news).toEqual(["c1", "c2"]);
    face.end("c1", T0 + 2002);
    expect(face.news).toEqual(["c3", "c4"]);
  });

  test("the throttle draws for each call when it wakes: patient ones wait, the others are refused", () => {
    const rate = { perSecond: 1, burst: 4 };
    const face = new Face(
      admissionOf({ throttle: ALL_GUARDS.throttle, rate }, undefined, always(0)),
    );
    for (const call of names("x", 4)) face.arrive(call, FIRST, T0);
    for (const call of names("x", 4)) face.end(call, T0, { kind: "status", status: 503 });
    face.arrive("p", patiently(FIRST), T0);
    face.arrive("b", FIRST, T0);
    face.waiting.wake(T0 + 1000);
    expect(face.news).toEqual([...names("x", 4), "b overload"]);
    expect(face.waiting.size).toBe(1);
    expect(face.waiting.wakeAt).toBe(T0 + 1000 + THROTTLE_RECHECK_MS);
  });
});

describe("the queue", () => {
  test("limits only fail-fast calls that wait for a slot", () => {
    const face = new Face(admissionOf({ concurrency: slots(1, 2) }));
    face.arrive("a", FIRST, T0);
    for (const call of names("p", 5)) face.arrive(call, patiently(FIRST), T0);
    for (const call of names("f", 3)) face.arrive(call, FIRST, T0);
    expect(face.news).toEqual(["a", "f2 overload"]);
    face.remove("f0");
    face.arrive("f3", FIRST, T0);
    face.arrive("f4", FIRST, T0);
    expect(face.news).toEqual(["f4 overload"]);
    expect(face.waiting.size).toBe(7);
  });

  test("does not limit calls that another guard holds", () => {
    const face = new Face(
      admissionOf({ concurrency: slots(1, 0), rate: { perSecond: 1, burst: 1 } }),
    );
    for (const call of names("f", 4)) face.arrive(call, FIRST, T0);
    expect(face.news).toEqual(["f0"]);
    expect(face.waiting.size).toBe(3);
    face.arrive("f4", FIRST, T0 + 1000);
    expect(face.news).toEqual(["f4 overload"]);
  });

  test("has space again for each call that has started", () => {
    const face = new Face(admissionOf({ concurrency: slots(1, 1) }));
    face.arrive("f0", FIRST, T0);
    for (let n = 1; n < 20; n++) {
      face.arrive(`f${n}`, FIRST, T0);
      face.arrive(`x${n}`, FIRST, T0);
      face.end(`f${n - 1}`, T0);
      expect(face.news.slice(-2)).toEqual([`x${n} overload`, `f${n}`]);
    }
  });
});

test("a retry that can never get a slot is refused, not held", () => {
  const concurrency = { ...slots(4), maxRetries: 0 };
  const face = new Face(admissionOf({ concurrency, rate: { perSecond: 1, burst: 1 } }));
  face.arrive("a", FIRST, T0);
  face.arrive("b", patiently(RETRY), T0);
  expect(face.news).toEqual(["a", "b overload"]);
  leave(face.admission, face.permits.get("a") as Permit, SUCCESS, T0);
});
