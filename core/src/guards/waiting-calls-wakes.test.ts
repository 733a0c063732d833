/** Tests of waiting calls: when they wake, and what a wake costs. */
import { describe, expect, test } from "vitest";
import {
  ALL_GUARDS,
  admissionOf,
  always,
  askedFor,
  FAILED,
  FIRST,
  patiently,
  T0,
} from "./admission.testing.ts";
import { THROTTLE_RECHECK_MS } from "./admission.ts";
import { adoptBreaker, type Breaker, createBreaker } from "./breaker.ts";
import { NEVER, names, QueueUser, slots } from "./waiting-calls.testing.ts";
import type { WaitingEntry } from "./waiting-calls.ts";

describe("cost", () => {
  test("10,000 calls held by a rate of 1,000 per second need about two enters each", () => {
    const user = new QueueUser(admissionOf({ rate: { perSecond: 1000, burst: 1 } }));
    const { waiting } = user;
    for (const call of names("c", 10_000)) user.arrive(call, FIRST, T0);
    user.enters = 0;
    let now = T0;
    while (waiting.size > 0) {
      now = waiting.wakeAt;
      waiting.wake(now);
    }
    expect(user.recentLog).toEqual(names("c", 10_000));
    expect(now - T0).toBe(9999);
    expect(user.enters).toBeLessThan(2 * 10_000 + 10);
  });

  test("10,000 calls that wait for one of ten slots need about two enters each", () => {
    const user = new QueueUser(admissionOf({ concurrency: slots(10, 20_000) }));
    for (const call of names("c", 10_010)) user.arrive(call, FIRST, T0);
    user.enters = 0;
    for (const call of names("c", 10_000)) user.end(call, T0 + 1);
    expect(user.waiting.size).toBe(0);
    expect(user.enters).toBeLessThan(2 * 10_000 + 10);
  });

  test("a thousand keys held by one guard are checked once, not a thousand times", () => {
    const { breaker: options } = ALL_GUARDS;
    const user = new QueueUser(admissionOf({ rate: { perSecond: 1000, burst: 1 } }));
    const { waiting } = user;
    const calls = names("k", 1000);
    for (const call of calls) user.arrive(call, FIRST, T0, createBreaker(options, T0));
    user.enters = 0;
    while (waiting.size > 0) waiting.wake(waiting.wakeAt);
    expect(user.recentLog).toEqual(calls);
    expect(user.enters).toBeLessThan(2 * 1000 + 10);
  });

  test("a thousand keys with open circuits are not checked before one of them changes", () => {
    const { breaker: options } = ALL_GUARDS;
    const user = new QueueUser(admissionOf({}));
    const breakers = names("k", 1000).map(() => createBreaker(options, T0));
    for (const [n, breaker] of breakers.entries()) {
      adoptBreaker(breaker, T0, { state: "OPEN", openUntil: T0 + 5000 + n, openCount: 1 });
      user.arrive(`k${n}`, patiently(FIRST), T0, breaker);
    }
    user.enters = 0;
    user.waiting.wake(T0 + 1);
    expect([user.enters, user.waiting.wakeAt]).toEqual([0, T0 + 5000]);
    const closed = { state: "CLOSED", openUntil: 0, openCount: 0 } as const;
    adoptBreaker(breakers[500] as Breaker, T0 + 1, closed);
    user.waiting.wake(T0 + 1);
    user.waiting.wake(T0 + 5001);
    expect(user.recentLog).toEqual(["k500", "k0", "k1"]);
    // One hour back: the rest of each opening still holds, and no more than that.
    user.waiting.wake(T0 - 3_600_000);
    expect(user.recentLog).toEqual([]);
    expect(user.waiting.wakeAt).toBe(T0 - 3_600_000 + 5002);
  });

  test("removing one of many checks no guard and searches no list", () => {
    const user = new QueueUser(admissionOf({ rate: { perSecond: 1, burst: 1 } }));
    for (const call of names("c", 2000)) user.arrive(call, FIRST, T0);
    user.enters = 0;
    let reads = 0;
    const entry = user.entries.get("c1000") as WaitingEntry<string>;
    for (const other of user.entries.values()) {
      if (other === entry || other === entry.next || other === entry.previous) continue;
      const { next } = other;
      Object.defineProperty(other, "next", { get: () => ++reads && next });
    }
    user.remove("c1000");
    user.remove("c1000");
    expect([user.waiting.size, user.enters, reads]).toEqual([1998, 0, 0]);
  });
});

describe("wakes", () => {
  test("patient calls held by a breaker wake when it closes, and not at the old instant", () => {
    const user = new QueueUser(
      admissionOf({ breaker: ALL_GUARDS.breaker }, undefined, always(0.5)),
    );
    user.arrive("a", patiently(FIRST), T0);
    user.end("a", T0, FAILED);
    for (const call of ["p", "q", "r"]) user.arrive(call, patiently(FIRST), T0 + 1);
    expect(user.waiting.wakeAt).toBe(T0 + 5000);
    user.waiting.wake(T0 + 5000);
    expect(user.recentLog).toEqual(["a", "p"]);
    expect(user.waiting.wakeAt).toBe(T0 + 10_000);
    user.end("p", T0 + 5100);
    expect(user.recentLog).toEqual(["q", "r"]);
    expect(user.waiting.wakeAt).toBe(NEVER);
  });

  test("a breaker that opens again holds them until its new instant", () => {
    const user = new QueueUser(
      admissionOf({ breaker: ALL_GUARDS.breaker }, undefined, always(0.5)),
    );
    user.arrive("a", patiently(FIRST), T0);
    user.end("a", T0, FAILED);
    for (const call of ["p", "q"]) user.arrive(call, patiently(FIRST), T0 + 1);
    user.waiting.wake(T0 + 5000);
    user.end("p", T0 + 5100, FAILED);
    expect(user.waiting.wakeAt).toBe(T0 + 15_100);
    user.waiting.wake(T0 + 10_000);
    expect(user.recentLog).toEqual(["a", "p"]);
  });

  test("fail-fast calls that wait for a slot are refused when the breaker opens, patient ones are not", () => {
    const user = new QueueUser(
      admissionOf({ breaker: ALL_GUARDS.breaker, concurrency: slots(1, 9) }),
    );
    user.arrive("a", FIRST, T0);
    user.arrive("p", patiently(FIRST), T0);
    user.arrive("b", FIRST, T0);
    user.arrive("c", FIRST, T0);
    user.end("a", T0 + 1, FAILED);
    expect(user.recentLog).toEqual(["a", "b circuit-open", "c circuit-open"]);
    expect(user.waiting.size).toBe(1);
    expect(user.waiting.wakeAt).toBeGreaterThan(T0 + 1);
  });

  test("a call whose time is over is skipped, and the next one starts", () => {
    const user = new QueueUser(admissionOf({ concurrency: slots(1, 9) }));
    for (const call of ["a", "b", "c"]) user.arrive(call, FIRST, T0);
    user.late.add("b");
    user.end("a", T0);
    expect(user.recentLog).toEqual(["a", "b held", "c"]);
  });

  test("a call that ends before `admitted` returns lets the next one start, in order", () => {
    const user = new QueueUser(admissionOf({ concurrency: slots(1, 5000) }));
    const calls = names("c", 3000);
    for (const call of calls) user.arrive(call, FIRST, T0);
    user.onAdmitted = (call, now) => user.end(call, now);
    user.end("c0", T0);
    expect(user.recentLog).toEqual(calls);
    expect([user.waiting.size, user.permits.size]).toEqual([0, 0]);
  });

  test("a call that starts another before `admitted` returns does not let it pass the others", () => {
    const user = new QueueUser(admissionOf({ concurrency: slots(1, 9) }));
    for (const call of ["a", "b", "c"]) user.arrive(call, FIRST, T0);
    user.onAdmitted = (call, now) => {
      if (call === "b") user.arrive("d", FIRST, now);
      user.end(call, now);
    };
    user.end("a", T0);
    expect(user.recentLog).toEqual(["a", "b", "c", "d"]);
  });

  test("a handler that throws does not stop later wakes", () => {
    const user = new QueueUser(admissionOf({ concurrency: slots(1, 9) }));
    for (const call of ["a", "b", "c"]) user.arrive(call, FIRST, T0);
    user.onAdmitted = () => {
      throw new Error("broken");
    };
    expect(() => user.end("a", T0)).toThrow("broken");
    user.onAdmitted = () => undefined;
    user.end("b", T0);
    expect(user.recentLog).toEqual(["a", "b", "c"]);
  });

  test("after a Retry-After ends one call starts, and the others follow one by one", () => {
    const options = { concurrency: slots(100, 100) };
    const user = new QueueUser(admissionOf(options, { maxGateMs: 300_000 }));
    user.arrive("a", FIRST, T0);
    user.end("a", T0, askedFor(2000));
    for (const call of names("c", 7)) user.arrive(call, FIRST, T0 + 1);
    expect(user.waiting.wakeAt).toBe(T0 + 2000);
    user.waiting.wake(T0 + 2000);
    expect(user.recentLog).toEqual(["a", "c0"]);
    user.end("c0", T0 + 2001);
    expect(user.recentLog).toEqual(["c1", "c2"]);
    user.end("c1", T0 + 2002);
    expect(user.recentLog).toEqual(["c3", "c4"]);
  });

  test("a call that hangs after a breaker closed stops the others for a bounded time", () => {
    const { breaker } = ALL_GUARDS;
    const options = { breaker, concurrency: slots(30) };
    const user = new QueueUser(admissionOf(options, undefined, always(0.5)));
    user.arrive("a", patiently(FIRST), T0);
    user.end("a", T0, FAILED);
    user.arrive("probe", patiently(FIRST), T0 + 5000);
    user.end("probe", T0 + 5001);
    const calls = names("c", 20);
    for (const call of calls) user.arrive(call, patiently(FIRST), T0 + 5001);
    expect(user.recentLog).toEqual(["a", "probe", "c0"]);
    // Nothing ends: one more starts in each 100 ms, because calls usually take 1 ms.
    const { waiting } = user;
    for (let step = 1; step < calls.length; step++) {
      expect(waiting.wakeAt).toBe(T0 + 5001 + 100 * step);
      waiting.wake(waiting.wakeAt);
      expect(user.recentLog).toEqual([`c${step}`]);
    }
    expect([waiting.size, waiting.wakeAt]).toEqual([0, NEVER]);
  });

  test("calls that answer after a breaker closed start by their answers, not by time", () => {
    const { breaker } = ALL_GUARDS;
    const options = { breaker, concurrency: slots(30) };
    const user = new QueueUser(admissionOf(options, undefined, always(0.5)));
    user.arrive("a", patiently(FIRST), T0);
    user.end("a", T0, FAILED);
    user.arrive("probe", patiently(FIRST), T0 + 5000);
    user.end("probe", T0 + 5001);
    for (const call of names("c", 20)) user.arrive(call, patiently(FIRST), T0 + 5001);
    user.end("c0", T0 + 5090);
    expect(user.recentLog).toEqual(["a", "probe", "c0", "c1", "c2"]);
    expect(user.waiting.wakeAt).toBe(T0 + 5190);
  });

  test("the throttle draws for each call when it wakes: patient ones wait, the others are refused", () => {
    const rate = { perSecond: 1, burst: 4 };
    const user = new QueueUser(
      admissionOf({ throttle: ALL_GUARDS.throttle, rate }, undefined, always(0)),
    );
    for (const call of names("x", 4)) user.arrive(call, FIRST, T0);
    for (const call of names("x", 4)) user.end(call, T0, { kind: "status", status: 503 });
    user.arrive("p", patiently(FIRST), T0);
    user.arrive("b", FIRST, T0);
    user.waiting.wake(T0 + 1000);
    expect(user.recentLog).toEqual([...names("x", 4), "b overload"]);
    expect(user.waiting.size).toBe(1);
    expect(user.waiting.wakeAt).toBe(T0 + 1000 + THROTTLE_RECHECK_MS);
  });
});
