/** Tests of waiting calls: the order in which they start, and the queue. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SUCCESS } from "../decide/outcome.ts";
import {
  ALL_GUARDS,
  admissionOf,
  askedFor,
  entered,
  FAILED,
  FIRST,
  HEDGE,
  leave,
  patiently,
  RETRY,
  T0,
} from "./admission.testing.ts";
import type { Permit } from "./admission.ts";
import { createBreaker } from "./breaker.ts";
import { TOKEN_BUDGET_DEFAULTS } from "./retry-budget.ts";
import { NEVER, names, QueueUser, slots } from "./waiting-calls.testing.ts";

describe("order", () => {
  test("calls of a lane start in order of arrival, whatever is removed and whatever ends", () => {
    const anySteps = fc.array(fc.tuple(fc.nat(3), fc.nat(40), fc.nat(20)), { maxLength: 80 });
    fc.assert(
      fc.property(anySteps, (steps) => {
        const user = new QueueUser(
          admissionOf({ concurrency: slots(3, 100), rate: { perSecond: 50, burst: 2 } }),
        );
        const { waiting } = user;
        let now = T0;
        const started: string[] = [];
        for (const [n, [kind, gap, which]] of steps.entries()) {
          now += gap;
          if (waiting.wakeAt <= now) waiting.wake(now);
          const [running] = user.permits.keys();
          if (kind < 2)
            user.arrive(`${kind === 0 ? "f" : "r"}${n}`, kind === 0 ? FIRST : RETRY, now);
          else if (kind === 2 && running !== undefined) user.end(running, now);
          else {
            const queued = [...user.entries.keys()].filter((call) => !started.includes(call));
            const call = queued[which % Math.max(1, queued.length)];
            if (call !== undefined) user.remove(call);
          }
          started.push(...user.recentLog);
        }
        for (const lane of ["f", "r"]) {
          const numbers = started
            .filter((call) => call.startsWith(lane))
            .map((call) => +call.slice(1));
          expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
        }
        const left = [...user.entries.values()].filter(({ isWaiting }) => isWaiting);
        expect(waiting.size).toBe(left.length);
        // No call waits that could start.
        if (waiting.size > 0) {
          waiting.wake(now);
          expect(user.recentLog).toEqual([]);
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
        const user = new QueueUser(
          admissionOf({ retryBudget, rate, concurrency: slots(4, 9) }, { maxGateMs: 900 }),
        );
        const { waiting, admission } = user;
        const breakers = [0, 1, 2].map(() => createBreaker(ALL_GUARDS.breaker, T0));
        let now = T0;
        for (const [n, [what, key, gap]] of steps.entries()) {
          now += gap;
          const request = kinds[what];
          const [running] = user.permits.keys();
          if (request !== undefined) user.arrive(`c${n}`, request, now, breakers[key % 3]);
          else if (running !== undefined) {
            user.end(running, now, [SUCCESS, SUCCESS, FAILED, askedFor(500)][key] ?? SUCCESS);
          }
          waiting.wake(now);
          const heads = [...user.entries.values()].filter(
            ({ isWaiting, previous }) => isWaiting && previous === undefined,
          );
          for (const { request: head, lane } of heads) {
            expect(admission.check(head, lane.breaker, now)).toBe("hold");
          }
          if (waiting.size > 0) expect(waiting.wakeAt).toBeGreaterThan(now);
        }
      }),
      { numRuns: 60 },
    );
  });

  test("a call that finds others waiting may not pass them", () => {
    const user = new QueueUser(admissionOf({ rate: { perSecond: 1, burst: 1 } }));
    for (const call of ["a", "b", "c"]) user.arrive(call, FIRST, T0);
    expect(user.recentLog).toEqual(["a"]);
    expect(user.waiting.wakeAt).toBe(T0 + 1000);
    user.arrive("d", FIRST, T0 + 1000);
    user.waiting.wake(T0 + 1000);
    user.waiting.wake(T0 + 2000);
    user.waiting.wake(T0 + 3000);
    expect(user.recentLog).toEqual(["b", "c", "d"]);
    expect([user.waiting.size, user.waiting.wakeAt]).toEqual([0, NEVER]);
  });

  test("no hedge is sent while a call waits: optional work never overtakes waiting work", () => {
    const user = new QueueUser(admissionOf({ rate: { perSecond: 1, burst: 1 } }));
    const { waiting, admission } = user;
    const hedge = (now: number) => waiting.enter(HEDGE, admission.guards.breaker, now);
    for (const call of ["a", "b"]) user.arrive(call, FIRST, T0);
    // The token is free again, but it is for the call that waits.
    expect(hedge(T0 + 1000)).toBeUndefined();
    expect(admission.refusal).toBe("hold");
    waiting.wake(T0 + 1000);
    expect(user.recentLog).toEqual(["a", "b"]);
    expect(hedge(T0 + 1000)).toBeUndefined();
    expect(hedge(T0 + 2000)).toBeDefined();
    user.arrive("c", FIRST, T0 + 2000);
    expect(user.recentLog).toEqual([]);
  });

  test("a held retry does not block first attempts", () => {
    const retryBudget = { ...TOKEN_BUDGET_DEFAULTS, maxTokens: 14 };
    const user = new QueueUser(admissionOf({ retryBudget, concurrency: slots(9) }));
    // The only token, the trial of this second, and a call that waits for the next trial.
    for (const call of names("r", 3)) user.arrive(call, patiently(RETRY), T0);
    for (const call of names("f", 3)) user.arrive(call, FIRST, T0);
    expect(user.recentLog).toEqual(["r0", "r1", "f0", "f1", "f2"]);
    expect([user.waiting.size, user.waiting.wakeAt]).toEqual([1, T0 + 1000]);
    user.waiting.wake(T0 + 1000);
    expect(user.recentLog).toEqual(["r2"]);
  });

  test("a call that only waits behind others has their hold, until now", () => {
    const retryBudget = { ...TOKEN_BUDGET_DEFAULTS, maxTokens: 14 };
    const { admission, waiting } = new QueueUser(
      admissionOf({ retryBudget, concurrency: slots(9) }),
    );
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
    const user = new QueueUser(admissionOf({ concurrency: slots(1, 9) }));
    user.arrive("a", FIRST, T0);
    user.arrive("b", RETRY, T0);
    user.arrive("c", patiently(FIRST), T0);
    user.arrive("d", FIRST, T0);
    for (const call of ["a", "b", "c"]) user.end(call, T0);
    expect(user.recentLog).toEqual(["a", "b", "c", "d"]);
  });

  test("calls with different breakers wait in different lanes", () => {
    const { breaker: options } = ALL_GUARDS;
    const user = new QueueUser(admissionOf({ breaker: options, rate: { perSecond: 1, burst: 1 } }));
    const [sick, well] = [createBreaker(options, T0), createBreaker(options, T0)];
    user.arrive("s0", patiently(FIRST), T0, sick);
    user.end("s0", T0, FAILED);
    expect(sick.state).toBe("OPEN");
    user.arrive("s1", patiently(FIRST), T0 + 1000, sick);
    user.arrive("w1", patiently(FIRST), T0 + 1000, well);
    user.arrive("w2", patiently(FIRST), T0 + 1000, well);
    expect(user.recentLog).toEqual(["s0", "w1"]);
    user.waiting.wake(T0 + 2000);
    expect(user.recentLog).toEqual(["w2"]);
    user.waiting.wake(sick.openUntil);
    expect(user.recentLog).toEqual(["s1"]);
  });
});

describe("the queue", () => {
  test("limits only fail-fast calls that wait for a slot", () => {
    const user = new QueueUser(admissionOf({ concurrency: slots(1, 2) }));
    user.arrive("a", FIRST, T0);
    for (const call of names("p", 5)) user.arrive(call, patiently(FIRST), T0);
    for (const call of names("f", 3)) user.arrive(call, FIRST, T0);
    expect(user.recentLog).toEqual(["a", "f2 overload"]);
    user.remove("f0");
    user.arrive("f3", FIRST, T0);
    user.arrive("f4", FIRST, T0);
    expect(user.recentLog).toEqual(["f4 overload"]);
    expect(user.waiting.size).toBe(7);
  });

  test("does not limit calls that another guard holds", () => {
    const user = new QueueUser(
      admissionOf({ concurrency: slots(1, 0), rate: { perSecond: 1, burst: 1 } }),
    );
    for (const call of names("f", 4)) user.arrive(call, FIRST, T0);
    expect(user.recentLog).toEqual(["f0"]);
    expect(user.waiting.size).toBe(3);
    user.arrive("f4", FIRST, T0 + 1000);
    expect(user.recentLog).toEqual(["f4 overload"]);
  });

  test("has space again for each call that has started", () => {
    const user = new QueueUser(admissionOf({ concurrency: slots(1, 1) }));
    user.arrive("f0", FIRST, T0);
    for (let n = 1; n < 20; n++) {
      user.arrive(`f${n}`, FIRST, T0);
      user.arrive(`x${n}`, FIRST, T0);
      user.end(`f${n - 1}`, T0);
      expect(user.recentLog.slice(-2)).toEqual([`x${n} overload`, `f${n}`]);
    }
  });
});

test("a retry that can never get a slot is refused, not held", () => {
  const concurrency = { ...slots(4), maxRetries: 0 };
  const user = new QueueUser(admissionOf({ concurrency, rate: { perSecond: 1, burst: 1 } }));
  user.arrive("a", FIRST, T0);
  user.arrive("b", patiently(RETRY), T0);
  expect(user.recentLog).toEqual(["a", "b overload"]);
  leave(user.admission, user.permits.get("a") as Permit, SUCCESS, T0);
});
