/** Calendar: the order of one heap, whatever lies in the wheel. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createEventQueue, popNext, pushMember } from "./event-queue.ts";
import { createHeap, popEvent, pushEvent } from "./heap.ts";

const RANKS = Uint8Array.of(1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
const OF_NO_MEMBER = 2;

describe("calendar", () => {
  it("gives the events of its members and others in the order of a heap", () => {
    // Members step by these spans, each after its own event; some are longer than the wheel goes round.
    const anySpan = fc.oneof(
      fc.nat({ max: 3 }),
      fc.double({ min: 0, max: 9, noNaN: true }),
      fc.nat(70_000),
    );
    const anySteps = fc.array(anySpan, { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(fc.array(anySteps, { minLength: 1, maxLength: 20 }), (members) => {
        const calendar = createEventQueue(members.length, RANKS);
        const heap = createHeap(4, RANKS);
        const left = members.map((steps) => [...steps]);
        const push = (member: number, now: number) => {
          const span = left[member]?.shift();
          if (span === undefined) return;
          const kind = (left[member]?.length ?? 0) % 2;
          pushMember(calendar, now + span, kind, member);
          pushEvent(heap, now + span, kind, member);
          if (span > 5) pushEvent(calendar.heap, now + span / 2, OF_NO_MEMBER, member);
          if (span > 5) pushEvent(heap, now + span / 2, OF_NO_MEMBER, member);
        };
        for (const member of members.keys()) push(member, 0);
        while (popEvent(heap)) {
          const { at, kind, subject } = heap;
          expect(popNext(calendar)).toBe(true);
          expect(calendar.heap).toMatchObject({ at, kind, subject });
          if (kind !== OF_NO_MEMBER) push(subject, at);
        }
        expect(popNext(calendar)).toBe(false);
      }),
    );
  });
});
