/** Tests of the total deadline of an attempt, on virtual time. */
import { virtualClock } from "@redrive/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DeadlineTimer, type TimerEntry } from "./deadline-timer.ts";

function bench() {
  const clock = virtualClock();
  const deadlines = new DeadlineTimer(clock);
  const expired: [string, number][] = [];
  const member = (name: string, deadlineMs: number): TimerEntry => ({
    deadlineMs,
    slot: -1,
    expire: () => expired.push([name, clock.monotonicMs()]),
  });
  return { clock, deadlines, expired, member };
}

describe("deadlines", () => {
  it("expire in time, whatever the order they were set in", async () => {
    const { clock, deadlines, expired, member } = bench();
    for (const [name, ms] of [
      ["c", 300],
      ["a", 100],
      ["b", 200],
    ] as const) {
      deadlines.add(member(name, ms));
    }
    await clock.advance(1000);
    expect(expired).toEqual([
      ["a", 100],
      ["b", 200],
      ["c", 300],
    ]);
    expect(deadlines.size).toBe(0);
  });

  it("spare those who left", async () => {
    const { clock, deadlines, expired, member } = bench();
    const early = member("early", 100);
    deadlines.add(early);
    deadlines.add(member("late", 200));
    deadlines.remove(early);
    deadlines.remove(early);
    await clock.advance(1000);
    expect(expired).toEqual([["late", 200]]);
  });

  it("need one alarm for any number, and none for nobody", async () => {
    const { clock, deadlines, member } = bench();
    const members = Array.from({ length: 100 }, (_, n) => member(String(n), 1000 + n));
    for (const one of members) deadlines.add(one);
    expect(clock.pending()).toBe(1);
    for (const one of members) deadlines.remove(one);
    await clock.advance(2000);
    expect(clock.pending()).toBe(0);
  });

  it("bear members who join and leave while others expire", async () => {
    const { clock, deadlines, expired, member } = bench();
    const spared = member("spared", 100);
    deadlines.add({
      deadlineMs: 100,
      slot: -1,
      expire: () => {
        deadlines.remove(spared);
        deadlines.add(member("joined", 150));
      },
    });
    deadlines.add(spared);
    await clock.advance(1000);
    expect(expired).toEqual([["joined", 150]]);
  });

  it("expire exactly those who stayed, each once and at its time", async () => {
    const plan = fc.array(fc.record({ ms: fc.integer({ min: 1, max: 50 }), leaves: fc.boolean() }));
    await fc.assert(
      fc.asyncProperty(plan, async (entries) => {
        const { clock, deadlines, expired, member } = bench();
        const members = entries.map(({ ms }, index) => member(String(index), ms));
        for (const one of members) deadlines.add(one);
        entries.forEach(({ leaves }, index) => {
          if (leaves) deadlines.remove(members[index]!);
        });
        await clock.advance(100);
        const stayed = entries.flatMap(({ ms, leaves }, index) =>
          leaves ? [] : [[String(index), ms]],
        );
        expect(expired.toSorted()).toEqual(stayed.toSorted());
      }),
      { numRuns: 50 },
    );
  });
});
