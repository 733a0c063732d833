/** Event queue: has the order of a single heap, whatever is in the wheel. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createEventQueue, popNext, pushMember } from "./event-queue.ts";
import { createHeap, popEvent, pushEvent } from "./heap.ts";

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
