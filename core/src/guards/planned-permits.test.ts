/** Tests of permits that get their token of the rate when they start. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  anySetup,
  entered,
  FIRST,
  fleetAdmissionOf,
  patiently,
  playFleet,
  RETRY,
  stateOf,
  T0,
} from "./admission.testing.ts";
import type { Admission, Permit } from "./admission.ts";
import { PermitBatch } from "./fleet-admission.ts";
import { rateReadyAt } from "./rate.ts";

const REQUEST = patiently(FIRST);

function planned(rate: { readonly perSecond: number; readonly burst: number }) {
  const admission = fleetAdmissionOf({ rate });
  const plan = (now: number, aheadMs: number) => admission.enter(REQUEST, undefined, now, aheadMs);
  const planAll = (now: number, aheadMs: number): Permit[] => {
    const permits: Permit[] = [];
    for (let one = plan(now, aheadMs); one !== undefined; one = plan(now, aheadMs)) {
      permits.push(one);
    }
    return permits;
  };
  return { admission, plan, planAll };
}

describe("a batch of planned permits", () => {
  const anyBatch = fc.record({
    setup: anySetup,
    request: fc.record({
      kind: fc.constantFrom("first" as const, "retry" as const),
      patient: fc.constant(true),
      throttled: fc.boolean(),
    }),
    most: fc.integer({ min: 1, max: 12 }),
    aheadMs: fc.constantFrom(0, 50, 3000),
    used: fc.nat(12),
  });

  test("is the same as permits that are taken one by one, whatever the guards and their history", () => {
    fc.assert(
      fc.property(anyBatch, ({ setup, request, most, aheadMs, used }) => {
        const one = playFleet(setup);
        const many = playFleet(setup);
        const { now } = one;
        const breakerOf = ({ admission }: { readonly admission: Admission }) =>
          admission.guards.breaker;
        const permits: Permit[] = [];
        while (permits.length < most) {
          const permit = one.admission.enter(request, breakerOf(one), now, aheadMs);
          if (permit === undefined) break;
          permits.push(permit);
        }
        const batch = new PermitBatch(request.kind);
        many.admission.enterMany(batch, request, breakerOf(many), now, aheadMs, most);
        expect(batch.size).toBe(permits.length);
        expect(stateOf(many)).toEqual(stateOf(one));
        expect(many.random.draws).toBe(one.random.draws);

        const kept = permits.splice(0, used);
        const alike = kept.map(() => many.admission.takeFrom(batch));
        const shown = ({ guards: _, budget: __, ...permit }: Permit) => permit;
        expect(alike.map(shown)).toEqual(kept.map(shown));
        for (const permit of permits.reverse()) {
          one.admission.handBack(permit, breakerOf(one), now);
        }
        many.admission.handBackAll(batch, breakerOf(many), now);
        expect(batch.size).toBe(0);
        const running = ({ inFlight, retriesInFlight }: Admission) => [inFlight, retriesInFlight];
        expect(running(many.admission)).toEqual(running(one.admission));
        expect(stateOf(many)).toEqual(stateOf(one));
        for (const [index, permit] of kept.entries()) {
          const isStarted = one.admission.start(permit, now + 5);
          expect(many.admission.start(alike[index] as Permit, now + 5)).toBe(isStarted);
        }
        expect(stateOf(many)).toEqual(stateOf(one));
      }),
      { numRuns: 2000 },
    );
  });
});

describe("a planned permit", () => {
  test("is for a token within the time ahead", () => {
    const { admission, planAll } = planned({ perSecond: 100, burst: 2 });
    const permits = planAll(T0, 50);
    expect(permits).toHaveLength(7);
    expect(admission.heldBy).toBe("rate");
    expect(admission.heldUntil).toBe(T0 + 60 - 50);
    for (const permit of permits.slice(0, 2)) expect(admission.start(permit, T0)).toBe(true);
    expect(planAll(T0 + 10, 50)).toHaveLength(1);
  });

  test("starts when there is a token, and not earlier", () => {
    const { admission, planAll } = planned({ perSecond: 100, burst: 1 });
    const permits = planAll(T0, 50);
    const startedAt = permits.map((permit) => {
      let now = T0;
      while (!admission.start(permit, now)) now++;
      return now - T0;
    });
    expect(startedAt).toEqual([0, 10, 20, 30, 40, 50]);
    expect(admission.start(permits[0] as Permit, T0 + 50)).toBe(true);
    expect(admission.startsAt(T0 + 50)).toBe(T0 + 60);
  });

  test("goes before a permit that takes its token at once", () => {
    const { admission, plan } = planned({ perSecond: 100, burst: 1 });
    const permit = plan(T0, 0) as Permit;
    expect(admission.enter(REQUEST, undefined, T0)).toBeUndefined();
    expect(admission.heldUntil).toBe(T0 + 10);
    admission.handBack(permit, undefined, T0);
    expect(entered(admission, REQUEST, T0).tokenAt).toBe(T0);
  });

  test("costs nothing if it is handed back before it starts, also out of order", () => {
    const { admission, planAll } = planned({ perSecond: 100, burst: 1 });
    const permits = planAll(T0, 50);
    for (const at of [3, 0, 5, 1]) admission.handBack(permits[at] as Permit, undefined, T0 + 1);
    expect(planAll(T0 + 1, 50)).toHaveLength(4);
    const { rate } = admission.guards;
    expect(rate && rateReadyAt(rate, T0)).toBe(T0);
  });

  test("returns its token if it is handed back after it has started", () => {
    const { admission, plan } = planned({ perSecond: 1, burst: 1 });
    const permit = plan(T0, 0) as Permit;
    expect(admission.start(permit, T0)).toBe(true);
    admission.handBack(permit, undefined, T0);
    expect(admission.startsAt(T0)).toBe(T0);
  });

  test("counts for the retry budget when it starts, and not if it is handed back", () => {
    const retryBudget = { kind: "RATIO", ratio: 0.5, minPerSecond: 0, windowMs: 10_000 } as const;
    const admission = fleetAdmissionOf({ retryBudget });
    const retry = patiently(RETRY);
    const permits = [1, 2, 3, 4].map(
      () => admission.enter(REQUEST, undefined, T0, 0) as Permit,
    ) as [Permit, Permit, Permit, Permit];
    // Of a budget without a minimum, patient callers get one trial per second.
    expect(entered(admission, retry, T0).ticket).toBeLessThan(0);
    for (const permit of permits.slice(0, 2)) admission.handBack(permit, undefined, T0);
    expect(admission.enter(retry, undefined, T0)).toBeUndefined();
    for (const permit of permits.slice(2)) expect(admission.start(permit, T0)).toBe(true);
    expect(entered(admission, retry, T0).ticket).toBeGreaterThan(0);
    expect(admission.enter(retry, undefined, T0)).toBeUndefined();
    admission.handBack(permits[2], undefined, T0);
    admission.handBack(permits[3], undefined, T0);
  });

  test("takes the token of a rate that was set after it was given", () => {
    const admission = fleetAdmissionOf({});
    const permits = [1, 2].map(() => admission.enter(REQUEST, undefined, T0, 0) as Permit);
    admission.setGuards(fleetAdmissionOf({ rate: { perSecond: 1, burst: 1 } }).guards, undefined);
    expect(permits.map((permit) => admission.start(permit, T0))).toEqual([true, false]);
  });

  test("however late the permits start, and whatever is returned, the bound is kept", () => {
    const anyRate = fc.record({
      perSecond: fc.constantFrom(3, 40, 700, 5000),
      burst: fc.constantFrom(1, 4, 60),
    });
    const anyStep = fc.record({ gapMs: fc.nat(80), returned: fc.nat(4) });
    fc.assert(
      fc.property(anyRate, fc.array(anyStep, { maxLength: 40 }), (rate, steps) => {
        const { admission, planAll } = planned(rate);
        const waiting: Permit[] = [];
        const sentAt: number[] = [];
        let now = T0;
        for (const { gapMs, returned } of steps) {
          waiting.push(...planAll(now, 50));
          for (const permit of waiting.splice(0, returned)) {
            admission.handBack(permit, undefined, now);
          }
          now += gapMs;
          while (waiting[0] !== undefined && admission.start(waiting[0], now)) {
            waiting.shift();
            sentAt.push(now);
          }
        }
        for (const [from, fromAt] of sentAt.entries()) {
          const most = sentAt.slice(from).map((toAt, n) => {
            return n + 1 - (rate.burst + (rate.perSecond * (toAt - fromAt)) / 1000);
          });
          expect(Math.max(...most)).toBeLessThan(1e-6);
        }
      }),
      { numRuns: 50 },
    );
  });
});
