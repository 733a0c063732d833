/** Wheel: orders by time, then by order of pushing, within and beyond its range. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createHeap, popEvent, pushEvent } from "./heap.ts";
import {
  advanceWheel,
  createEventQueue,
  createWheel,
  MEMBER_MASK,
  PAYLOAD,
  payloadOf,
  popEntry,
  popNext,
  pushEntry,
  pushMember,
} from "./wheel.ts";

/** All popped entries in order, with their instants. */
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
  it("returns members by time, and within an instant in the order of pushing", () => {
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

  it("keeps members beyond its range until they are due", () => {
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

  it("accepts events for its current instant", () => {
    const wheel = createWheel(2);
    pushEntry(wheel, 0, 7);
    expect(advanceWheel(wheel)).toBe(true);
    expect(popEntry(wheel)).toBe(0);
    pushEntry(wheel, 1, 7);
    expect(popEntry(wheel)).toBe(1);
    expect(popEntry(wheel)).toBe(-1);
    expect(advanceWheel(wheel)).toBe(false);
  });

  it("returns the payload of an entry, however often its blocks are reused", () => {
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
        // Many in one slot, few in others, some at the current instant.
        if (payloadOf(entry) < 200)
          pushEntry(wheel, entry + PAYLOAD, wheel.now + (member % 3) * 1000);
      }
    }
    expect(wrong).toEqual([]);
    expect([...new Set(seen)]).toEqual([201]);
    expect(wheel.fresh).toBeLessThanOrEqual(wheel.words.length);
  });
});

// Event queue: has the order of a single heap, whatever is in the wheel.

const RANKS = Uint8Array.of(1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
const OF_NO_MEMBER = 2;

describe("event queue", () => {
  it("returns events of members and other events in the order of a heap", () => {
    // Members advance by these durations, each after its own event. Some exceed the wheel's range.
    const anySpan = fc.oneof(
      fc.nat({ max: 3 }),
      fc.double({ min: 0, max: 9, noNaN: true }),
      fc.nat(70_000),
    );
    const anySteps = fc.array(anySpan, { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(fc.array(anySteps, { minLength: 1, maxLength: 20 }), (members) => {
        const queue = createEventQueue(members.length, RANKS);
        const heap = createHeap(4, RANKS);
        const left = members.map((steps) => [...steps]);
        const push = (member: number, now: number) => {
          const durationMs = left[member]?.shift();
          if (durationMs === undefined) return;
          const kind = (left[member]?.length ?? 0) % 2;
          pushMember(queue, now + durationMs, kind, member);
          pushEvent(heap, now + durationMs, kind, member);
          if (durationMs > 5) pushEvent(queue.heap, now + durationMs / 2, OF_NO_MEMBER, member);
          if (durationMs > 5) pushEvent(heap, now + durationMs / 2, OF_NO_MEMBER, member);
        };
        for (const member of members.keys()) push(member, 0);
        while (popEvent(heap)) {
          const { at, kind, subject } = heap;
          expect(popNext(queue)).toBe(true);
          expect(queue.heap).toMatchObject({ at, kind, subject });
          if (kind !== OF_NO_MEMBER) push(subject, at);
        }
        expect(popNext(queue)).toBe(false);
      }),
    );
  });
});
