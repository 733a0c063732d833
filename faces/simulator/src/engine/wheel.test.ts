/** Wheel: order by time, ties by order of pushing, near and beyond the horizon. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { advanceWheel, createWheel, popMember, pushMember } from "./wheel.ts";

/** All pops in order, with the instants they came at. */
function drain(wheel: ReturnType<typeof createWheel>): [number, number][] {
  const popped: [number, number][] = [];
  while (advanceWheel(wheel)) {
    for (let member = popMember(wheel); member >= 0; member = popMember(wheel)) {
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
        for (const [member, at] of times.entries()) pushMember(wheel, member, at);
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
        for (const [member, at] of times.entries()) pushMember(wheel, member, at);
        const popped = drain(wheel);
        expect(popped.map(([at]) => at)).toEqual([...times].sort((a, b) => a - b));
        expect(popped.every(([at, member]) => times[member] === at)).toBe(true);
      }),
    );
  });

  it("takes events pushed for the very instant it stands at", () => {
    const wheel = createWheel(2);
    pushMember(wheel, 0, 7);
    expect(advanceWheel(wheel)).toBe(true);
    expect(popMember(wheel)).toBe(0);
    pushMember(wheel, 1, 7);
    expect(popMember(wheel)).toBe(1);
    expect(popMember(wheel)).toBe(-1);
    expect(advanceWheel(wheel)).toBe(false);
  });
});
