/** Tests that the dues between two exchanges take memory for lanes only. */
import { describe, expect, it } from "vitest";
import type { LaneDue } from "../../model/lane-due.ts";
import { EarliestDues } from "./earliest-dues.ts";

const due = (dueAt: number, fields: Partial<LaneDue> = {}): LaneDue => ({
  tenantId: "acme",
  destination: "d",
  lane: "retry",
  partition: 3,
  dueAt,
  ...fields,
});

describe("the earliest dues", () => {
  it("have one instant per lane and partition, however many tasks wait", () => {
    const dues = new EarliestDues();
    for (const dueAt of [30, 10, 20]) dues.add(due(dueAt));
    expect(dues.take()).toEqual([due(10)]);
    expect(dues.take()).toEqual([]);
  });

  it("separate tenants, destinations, lanes and partitions", () => {
    const others = [{ tenantId: "b" }, { destination: "e" }, { lane: "first" }, { partition: 4 }];
    const all = [due(10), ...others.map((fields) => due(10, fields as Partial<LaneDue>))];
    expect(new EarliestDues(all).take()).toEqual(all);
  });

  it("keep the earlier instant of two exchanges", () => {
    const dues = new EarliestDues([due(20)]);
    dues.addAll([due(10), due(40, { lane: "first" })]);
    expect(dues.take()).toEqual([due(10), due(40, { lane: "first" })]);
  });
});
