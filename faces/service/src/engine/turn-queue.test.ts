/** Tests of the turn queue: tenants share what is taken, and nothing is lost or reordered. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TurnQueue } from "./commit.ts";

function filled(counts: Readonly<Record<string, number>>): TurnQueue<string> {
  const queue = new TurnQueue<string>();
  for (const [tenantId, count] of Object.entries(counts)) {
    for (let n = 0; n < count; n++) queue.push(tenantId, `${tenantId}${n}`);
  }
  return queue;
}

const countOf = (items: readonly string[], tenantId: string) =>
  items.filter((item) => item.startsWith(tenantId)).length;

describe("a turn queue", () => {
  it("takes equal parts, and gives what a tenant does not need to the others", () => {
    const queue = filled({ a: 1000, b: 1000, c: 5 });
    const items = queue.take(200);
    expect(items).toHaveLength(200);
    expect(countOf(items, "c")).toBe(5);
    expect(Math.abs(countOf(items, "a") - countOf(items, "b"))).toBeLessThanOrEqual(65);
    const next = queue.take(200);
    expect([countOf(next, "a"), countOf(next, "b")]).toEqual([100, 100]);
  });

  it("delays the item of a tenant by at most one round", () => {
    const queue = filled({ a: 100_000 });
    queue.take(256);
    queue.push("b", "b0");
    expect(queue.take(256)).toContain("b0");
    for (let n = 0; n < 100; n++) queue.push(`t${n}`, `t${n}`);
    const first = new Set([...queue.take(64), ...queue.take(64)]);
    expect([...first].filter((item) => item.startsWith("t"))).toHaveLength(100);
  });

  it("returns every item once, in the order of its tenant", () => {
    const tenants = fc.constantFrom("a", "b", "c");
    fc.assert(
      fc.property(fc.array(tenants), fc.array(fc.integer({ min: 1, max: 9 })), (pushes, takes) => {
        const queue = new TurnQueue<string>();
        for (const [index, tenant] of pushes.entries()) queue.push(tenant, `${tenant}${index}`);
        const taken = takes.flatMap((max) => queue.take(max));
        taken.push(...queue.take(Number.POSITIVE_INFINITY));
        expect(queue.take(1)).toEqual([]);
        for (const tenant of ["a", "b", "c"]) {
          const own = pushes.flatMap((one, index) => (one === tenant ? `${tenant}${index}` : []));
          expect(taken.filter((item) => item.startsWith(tenant))).toEqual(own);
        }
        expect(taken).toHaveLength(pushes.length);
      }),
    );
  });

  it("puts items back before the others of their tenant", () => {
    const queue = filled({ a: 2 });
    const [first = ""] = queue.take(1);
    queue.pushFirst("a", first);
    queue.pushFirst("b", "b0");
    expect(queue.take(3).toSorted()).toEqual(["a0", "a1", "b0"]);
  });
});
