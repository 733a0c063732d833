/**
 * Tests that a node obeys its shares, and that the breaker counts the calls of all nodes.
 * Tests how nodes divide a limit: nobody starves, nothing is wasted, and the sum never exceeds it.
 */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SUCCESS, statusOutcome } from "../decide/outcome.ts";
import { resolvePolicy } from "../decide/policy.ts";
import { seededRandom } from "../time/virtual.ts";
import { admissionRequestOf, type Permit } from "./admission.ts";
import { guardOptionsOf, resolveDestination } from "./destination.ts";
import { FleetAdmission, NO_SHARE, wantedSlots, wantedTokens } from "./fleet-admission.ts";
import { createGuards } from "./guards.ts";

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

  it("gives a planned permit a reserved token when it starts, in their order", () => {
    const admission = rated();
    const plan = (aheadMs: number) => admission.enter(FIRST, undefined, T0, aheadMs);
    const permits = [plan(0), plan(0), plan(99), plan(100)];
    expect(permits.map((permit) => permit !== undefined)).toEqual([true, true, false, true]);
    expect(plan(1000)).toBeUndefined();
    expect(admission.lacksShare).toBe(true);
    const [first, second, , last] = permits as Permit[];
    admission.handBack(second as Permit, undefined, T0);
    expect(admission.share?.rate[0]?.used).toBe(0);
    expect(admission.start(first as Permit, T0)).toBe(true);
    expect(admission.start(last as Permit, T0)).toBe(true);
    expect(admission.share?.rate[0]?.used).toBe(2);
    expect(admission.startsAt(T0)).toBe(T0 + 100);
    admission.share = NO_SHARE;
    expect(admission.startsAt(T0)).toBe(Number.POSITIVE_INFINITY);
  });

  it("is not named as the cause of a hold while the circuit is open, because nobody reserves tokens then", () => {
    const admission = admissionOf({ rate: { perSecond: 10 }, breaker: { minCalls: 1 } });
    const rate = { startAt: T0, intervalMs: 100, count: 1, used: 0 };
    admission.share = { slots: 9, retrySlots: 9, rate: [rate] };
    const permit = enter(admission);
    if (permit === undefined) throw new Error("refused");
    const { breaker } = admission.guards;
    admission.leave(permit, breaker, POLICY, statusOutcome(500), "transient", 1, T0);
    expect(breaker?.state).toBe("OPEN");
    expect(enter(admission)).toBeUndefined();
    const endless = { heldUntil: Number.POSITIVE_INFINITY, lacksShare: true };
    expect(admission).toMatchObject({ heldBy: "circuit-open", ...endless });
    // Without another guard, it is the cause.
    const after = (breaker?.openUntil ?? 0) + 1;
    expect(enter(admission, FIRST, after)).toBeUndefined();
    expect(admission).toMatchObject({ heldBy: "rate", ...endless });
  });

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

interface LedgerNode {
  demand: number;
  granted: number;
  heldMs?: number;
}

/** What a node asks for if it knows the demands of the others. */
function wantedBy(node: LedgerNode, nodes: readonly LedgerNode[], limit: number): number {
  const others = nodes.filter((one) => one !== node);
  return wantedSlots({
    limit,
    demand: node.demand,
    demanding: others.filter(({ demand }) => demand > 0).length,
    othersDemand: others.reduce((sum, { demand }) => sum + demand, 0),
    idle: others.filter(({ demand }) => demand === 0).length,
    heldMs: node.heldMs ?? 0,
  });
}

/** One exchange of a node with a ledger that grants at most what is left. */
function exchange(nodes: LedgerNode[], rank: number, limit: number): void {
  const node = nodes[rank] as LedgerNode;
  const others = nodes.filter((one) => one !== node);
  const wanted = wantedBy(node, nodes, limit);
  const taken = others.reduce((sum, { granted }) => sum + granted, 0);
  node.granted = Math.max(0, Math.min(wanted, limit - taken));
  node.heldMs = node.granted > 0 ? (node.heldMs ?? 0) + 1000 : 0;
}

describe("slots of a fleet", () => {
  it("go to the only node that needs them", () => {
    const nodes = [
      { demand: 10, granted: 0 },
      { demand: 0, granted: 0 },
    ];
    exchange(nodes, 0, 7);
    expect(nodes[0]?.granted).toBe(7);
  });

  it("of a larger limit are left for the next task of each idle node", () => {
    const nodes = [0, 1, 2].map((rank) => ({ demand: rank === 0 ? 100 : 0, granted: 0 }));
    exchange(nodes, 0, 64);
    expect(nodes[0]?.granted).toBe(62);
    const [, second] = nodes as [LedgerNode, LedgerNode];
    second.demand = 5;
    exchange(nodes, 1, 64);
    expect(second.granted).toBe(2);
    exchange(nodes, 0, 8);
    expect(nodes[0]?.granted).toBe(4);
  });

  it("are divided equally among nodes that need more than their part", () => {
    const nodes = Array.from({ length: 3 }, () => ({ demand: 100, granted: 0 }));
    for (let round = 0; round < 3; round++) {
      for (const rank of nodes.keys()) exchange(nodes, rank, 64);
    }
    const granted = nodes.map((node) => node.granted);
    expect(granted.sort((a, b) => a - b)).toEqual([20, 22, 22]);
  });

  it("leave to a busy node what an idle one does not need", () => {
    const nodes = [
      { demand: 100, granted: 0 },
      { demand: 4, granted: 0 },
    ];
    for (let round = 0; round < 3; round++) for (const rank of [0, 1]) exchange(nodes, rank, 64);
    expect(nodes.map(({ granted }) => granted)).toEqual([60, 4]);
  });

  it("take turns if there are fewer slots than nodes", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 6 }),
        fc.integer({ min: 1, max: 5 }),
        (count, limit) => {
          fc.pre(limit < count);
          const nodes: LedgerNode[] = Array.from({ length: count }, () => ({
            demand: 5,
            granted: 0,
          }));
          const served = new Set<number>();
          for (let second = 0; second < 4 * count; second++) {
            for (const rank of nodes.keys()) {
              exchange(nodes, rank, limit);
              if ((nodes[rank]?.granted ?? 0) > 0) served.add(rank);
            }
          }
          expect(served.size).toBe(count);
        },
      ),
    );
  });

  it("are asked for up to the limit, with at most one more per node, and used if the demand is there", () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(80), { minLength: 1, maxLength: 6 }),
        fc.integer({ min: 1, max: 100 }),
        fc.array(fc.nat(5), { maxLength: 30 }),
        (demands, limit, order) => {
          const nodes = demands.map((demand) => ({ demand, granted: 0 }));
          const sum = () => nodes.reduce((total, { granted }) => total + granted, 0);
          for (const pick of order) exchange(nodes, pick % nodes.length, limit);
          // Units that cannot be divided are asked for by every node. The ledger grants them once.
          const wanted = nodes.reduce((all, node) => all + wantedBy(node, nodes, limit), 0);
          expect(wanted).toBeLessThan(limit + nodes.length);
          for (let round = 0; round < 4; round++) {
            for (const rank of nodes.keys()) exchange(nodes, rank, limit);
          }
          const total = demands.reduce((one, other) => one + other, 0);
          // A part that an undemanding node leaves is found by its size, so some may stay unused.
          const floor = Math.min(total, Math.floor(limit / nodes.length));
          expect(sum()).toBeGreaterThanOrEqual(floor);
          for (const { demand, granted } of nodes) expect(granted).toBeLessThanOrEqual(demand);
        },
      ),
    );
  });
});

describe("tokens of a fleet", () => {
  it("are asked for by nodes with a demand, in equal parts", () => {
    expect(wantedTokens(10, 0, 3)).toBe(0);
    expect(wantedTokens(10, 5, 0)).toBe(10);
    expect(wantedTokens(10, 5, 1)).toBe(5);
    expect(wantedTokens(0.5, 5, 1)).toBe(1);
  });
});
