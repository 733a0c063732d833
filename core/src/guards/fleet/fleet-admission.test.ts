/** Tests that a node obeys its shares, and that the breaker counts the calls of all nodes. */
import { describe, expect, it } from "vitest";
import { SUCCESS, statusOutcome } from "../../decide/outcome.ts";
import { resolvePolicy } from "../../policy/policy.ts";
import { seededRandom } from "../../time/virtual.ts";
import { admissionRequestOf } from "../admission/permit.ts";
import { guardOptionsOf, resolveDestination } from "../destination.ts";
import { createGuards } from "../guards.ts";
import { FleetAdmission, NO_SHARE } from "./fleet-admission.ts";

const T0 = 1_000_000;
const FIRST = admissionRequestOf(false, true, false);
const RETRY = admissionRequestOf(true, true, false);
const POLICY = resolvePolicy({});

function admissionOf(document: object): FleetAdmission {
  const destination = resolveDestination({ retryBudget: false, ...document }, "service");
  const guards = createGuards(guardOptionsOf(destination), T0);
  return new FleetAdmission(guards, destination.retryAfterGate, seededRandom(1));
}

const enter = (admission: FleetAdmission, request = FIRST, now = T0) =>
  admission.enter(request, admission.guards.breaker, now);

describe("slots", () => {
  it("are limited by the share, for retries too", () => {
    const admission = admissionOf({ concurrency: { max: 10, algorithm: "FIXED" } });
    admission.share = { slots: 2, retrySlots: 1, rate: [] };
    expect(enter(admission, RETRY)).toBeDefined();
    expect(enter(admission, RETRY)).toBeUndefined();
    expect(admission).toMatchObject({ heldBy: "concurrency", lacksShare: true });
    expect(enter(admission)).toBeDefined();
    expect(enter(admission)).toBeUndefined();
    admission.share = { slots: 3, retrySlots: 1, rate: [] };
    expect(enter(admission)).toBeDefined();
  });

  it("are the whole limit without a share, and none with an empty one", () => {
    const admission = admissionOf({ concurrency: { max: 2, algorithm: "FIXED" } });
    expect([enter(admission), enter(admission)]).not.toContain(undefined);
    expect(enter(admission)).toBeUndefined();
    expect(admission.lacksShare).toBe(false);
    const other = admissionOf({ concurrency: { max: 2, algorithm: "FIXED" } });
    other.share = NO_SHARE;
    expect(enter(other)).toBeUndefined();
  });
});

describe("a rate", () => {
  const rated = () => {
    const admission = admissionOf({ rate: { perSecond: 10, burst: 3 } });
    const rate = { startAt: T0 - 100, intervalMs: 100, count: 3, used: 0 };
    admission.share = { slots: 9, retrySlots: 9, rate: [rate] };
    return admission;
  };

  it("is used token by token, at the reserved instants", () => {
    const admission = rated();
    expect([enter(admission), enter(admission)]).not.toContain(undefined);
    expect(enter(admission)).toBeUndefined();
    expect(admission).toMatchObject({ heldBy: "rate", heldUntil: T0 + 100, lacksShare: false });
    expect(enter(admission, FIRST, T0 + 100)).toBeDefined();
    expect(enter(admission, FIRST, T0 + 5000)).toBeUndefined();
    expect(admission).toMatchObject({ heldUntil: Number.POSITIVE_INFINITY, lacksShare: true });
  });

  it("loses tokens after a second", () => {
    const admission = rated();
    // Of the tokens at -100, 0 and 100 ms, the last second has one.
    const permits = [1, 2, 3].map(() => enter(admission, FIRST, T0 + 1050));
    expect(permits.filter((permit) => permit !== undefined)).toHaveLength(1);
  });

  it("gets the token of an attempt back that was never sent", () => {
    const admission = rated();
    const permit = enter(admission);
    enter(admission);
    admission.handBack(permit!, undefined, T0);
    expect(enter(admission)).toBeDefined();
  });
});

describe("a breaker", () => {
  const breaker = { minCalls: 20, failureRate: 0.5, openMs: 1000 };
  const fail = (admission: FleetAdmission, now: number) => {
    const permit = enter(admission, FIRST, now);
    if (permit === undefined) return;
    const outcome = statusOutcome(503);
    admission.leave(permit, admission.guards.breaker, POLICY, outcome, "transient", 1, now);
  };

  it("opens when the calls of all nodes reach its limits", () => {
    const admission = admissionOf({ breaker });
    admission.share = NO_SHARE;
    for (let n = 0; n < 6; n++) fail(admission, T0);
    expect(admission.guards.breaker?.state).toBe("CLOSED");
    const others = { calls: 24, failures: 24, slowCalls: 0 };
    admission.setOthers(others, admission.guards.breaker, T0 + 1);
    expect(admission.guards.breaker?.state).toBe("OPEN");
  });

  it("counts the other nodes when an attempt fails, unless the node uses the whole limits", () => {
    const others = { calls: 13, failures: 13, slowCalls: 0 };
    const states = [undefined, { slots: 9, retrySlots: 9, rate: [] }].map((share) => {
      const admission = admissionOf({ breaker });
      admission.share = share;
      for (let n = 0; n < 6; n++) fail(admission, T0);
      admission.setOthers(others, admission.guards.breaker, T0 + 1);
      fail(admission, T0 + 2);
      return admission.guards.breaker?.state;
    });
    expect(states).toEqual(["CLOSED", "OPEN"]);
  });

  it("does not open again because of reports from before it closed", () => {
    const admission = admissionOf({ breaker });
    const others = { calls: 30, failures: 30, slowCalls: 0 };
    admission.setOthers(others, admission.guards.breaker, T0);
    const openUntil = admission.guards.breaker?.openUntil ?? 0;
    const probe = enter(admission, FIRST, openUntil);
    const own = admission.guards.breaker;
    admission.leave(probe!, own, POLICY, SUCCESS, "success", 1, openUntil);
    expect(own?.state).toBe("CLOSED");
    admission.setOthers(others, own, openUntil + 1000);
    expect(own?.state).toBe("CLOSED");
    admission.setOthers(others, own, openUntil + 5000);
    expect(own?.state).toBe("OPEN");
  });
});
