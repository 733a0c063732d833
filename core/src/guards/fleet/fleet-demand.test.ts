/** Tests how nodes divide a limit: nobody starves, nothing is wasted, and the sum never exceeds it. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { wantedSlots, wantedTokens } from "./fleet-demand.ts";

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
