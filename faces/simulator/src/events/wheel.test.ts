/** Wheel: order by time, ties by order of pushing, near and beyond the horizon. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  advanceWheel,
  createWheel,
  MEMBER_MASK,
  PAYLOAD,
  payloadOf,
  popEntry,
  pushEntry,
} from "./wheel.ts";

/** All pops in order, with the instants they came at. */
function drain(wheel: ReturnType<typeof createWheel>): [number, number][] {
  const popped: [number, number][] = [];
  while (advanceWheel(wheel)) {
    for (let member = popEntry(wheel); member >= 0; member = popEntry(wheel)) {
      popped.push([wheel.now, member]);
    }
  }
  return popped;
}

describe("wheel", () => {
  it("hands members out by time, and within an instant in the order of pushing", () => {
    const near = fc.array(fc.integer({ min: 0, max: 30_000 }), { maxLength: 200 });
    fc.assert(
      fc.property(near, (times) => {
        const wheel = createWheel(times.length);
        for (const [member, at] of times.entries()) pushEntry(wheel, member, at);
        const expected = times.map((at, member): [number, number] => [at, member]);
        expected.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
        expect(drain(wheel)).toEqual(expected);
      }),
    );
  });

  it("keeps members beyond its horizon until they are due", () => {
    const far = fc.array(fc.integer({ min: 0, max: 5_000_000 }), { maxLength: 50 });
    fc.assert(
      fc.property(far, (times) => {
        const wheel = createWheel(times.length);
        for (const [member, at] of times.entries()) pushEntry(wheel, member, at);
        const popped = drain(wheel);
        expect(popped.map(([at]) => at)).toEqual([...times].sort((a, b) => a - b));
        expect(popped.every(([at, member]) => times[member] === at)).toBe(true);
      }),
    );
  });

  it("takes events pushed for the very instant it stands at", () => {
    const wheel = createWheel(2);
    pushEntry(wheel, 0, 7);
    expect(advanceWheel(wheel)).toBe(true);
    expect(popEntry(wheel)).toBe(0);
    pushEntry(wheel, 1, 7);
    expect(popEntry(wheel)).toBe(1);
    expect(popEntry(wheel)).toBe(-1);
    expect(advanceWheel(wheel)).toBe(false);
  });

  it("gives back what an entry carries along, however often its blocks are used again", () => {
    const size = 300;
    const wheel = createWheel(size);
    for (let member = 0; member < size; member++) pushEntry(wheel, member, member % 7);
    const seen = new Int32Array(size);
    const wrong: number[] = [];
    while (advanceWheel(wheel)) {
      for (let entry = popEntry(wheel); entry >= 0; entry = popEntry(wheel)) {
        const member = entry & MEMBER_MASK;
        if (payloadOf(entry) !== seen[member]) wrong.push(entry);
        seen[member] = (seen[member] as number) + 1;
        // Many to one slot, few to others, some to the very instant.
        if (payloadOf(entry) < 200)
          pushEntry(wheel, entry + PAYLOAD, wheel.now + (member % 3) * 1000);
      }
    }
    expect(wrong).toEqual([]);
    expect([...new Set(seen)]).toEqual([201]);
    expect(wheel.fresh).toBeLessThanOrEqual(wheel.words.length);
  });
});
