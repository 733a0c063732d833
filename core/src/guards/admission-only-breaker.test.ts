/** Tests of a destination whose only guard is a breaker: first attempts need no permit. */
import { describe, expect, test } from "vitest";
import { SUCCESS } from "../decide/outcome.ts";
import { ALL_GUARDS, admissionOf, always, FAILED, T0 } from "./admission.testing.ts";
import { replaceGuards } from "./admission.ts";
import { createGuards, type GuardOptions } from "./guards.ts";
import { latencyCalls } from "./latency.ts";
import { totalOf } from "./sliding-window.ts";

describe("a destination whose only guard is a breaker", () => {
  const bare = () => admissionOf({ breaker: ALL_GUARDS.breaker }, undefined, always(0.5));

  test("admits a first attempt without a permit while the breaker is closed", () => {
    const admission = bare();
    const { breaker } = admission.guards;
    if (breaker === undefined) throw new Error("it has a breaker");
    const pass = admission.enterOnlyBreaker(breaker);
    expect(pass).toBe(breaker.generation);
    admission.leaveOnlyBreaker(pass, breaker, FAILED, "transient", 1, T0);
    expect(breaker.state).toBe("OPEN");
    expect(admission.enterOnlyBreaker(breaker)).toBe(0);
    expect(admission.enterOnlyBreaker(undefined)).toBe(0);
  });

  test("reports successes to the breaker and the latency before these are read", () => {
    const admission = bare();
    const { breaker } = admission.guards;
    if (breaker === undefined) throw new Error("it has a breaker");
    for (let n = 0; n < 10; n++) {
      admission.leaveOnlyBreaker(
        admission.enterOnlyBreaker(breaker),
        breaker,
        SUCCESS,
        "success",
        0,
        T0,
      );
    }
    const { latency } = admission.guards;
    expect(latencyCalls(latency, T0)).toBe(10);
    expect(totalOf(breaker.window, 0)).toBe(10);
    admission.leaveOnlyBreaker(
      admission.enterOnlyBreaker(breaker),
      breaker,
      SUCCESS,
      "success",
      0,
      T0,
    );
    admission.leaveOnlyBreaker(
      admission.enterOnlyBreaker(breaker),
      breaker,
      SUCCESS,
      "success",
      7,
      T0 + 1,
    );
    expect(latencyCalls(admission.guards.latency, T0 + 1)).toBe(12);
  });

  test("requires a permit if there is a pause, a gate or another guard", () => {
    const admission = bare();
    const { breaker } = admission.guards;
    admission.pausedUntil = Number.POSITIVE_INFINITY;
    expect(admission.enterOnlyBreaker(breaker)).toBe(0);
    admission.pausedUntil = 0;
    admission.gateUntil = T0 + 1000;
    expect(admission.enterOnlyBreaker(breaker)).toBe(0);
    const guards: Required<GuardOptions> = ALL_GUARDS;
    for (const name of [
      "rate",
      "adaptiveRate",
      "throttle",
      "concurrency",
      "retryBudget",
    ] as const) {
      const other = admissionOf({ breaker: guards.breaker, [name]: guards[name] });
      expect(other.enterOnlyBreaker(other.guards.breaker)).toBe(0);
    }
    expect(admissionOf({ breaker: guards.breaker }, { maxGateMs: 1 }).hasOnlyBreaker).toBe(false);
  });

  test("requires a permit again after its guards were replaced", () => {
    const admission = bare();
    replaceGuards(admission, createGuards(ALL_GUARDS, T0), undefined);
    expect(admission.hasOnlyBreaker).toBe(false);
  });
});
