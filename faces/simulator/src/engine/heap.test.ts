/** Heap: orders by time, then by rank, then by order of pushing, as a property. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createHeap, popEvent, pushEvent } from "./heap.ts";

describe("heap", () => {
  it("returns events by time, ties in the order of pushing", () => {
    const times = fc.array(fc.integer({ min: 0, max: 50 }), { maxLength: 3000 });
    fc.assert(
      fc.property(times, (list) => {
        const heap = createHeap(4);
        for (const [subject, at] of list.entries()) pushEvent(heap, at, subject % 16, subject);
        const popped: [number, number, number][] = [];
        while (popEvent(heap)) popped.push([heap.at, heap.kind, heap.subject]);
        const expected = list.map((at, subject): [number, number, number] => [
          at,
          subject % 16,
          subject,
        ]);
        expected.sort((a, b) => a[0] - b[0] || a[2] - b[2]);
        expect(popped).toEqual(expected);
      }),
      { numRuns: 30 },
    );
  });

  it("returns kinds of a lower rank first at one instant", () => {
    const ranks = Uint8Array.of(2, 1, 0, 1);
    const events = fc.array(fc.tuple(fc.nat({ max: 9 }), fc.nat({ max: 3 })), { maxLength: 300 });
    fc.assert(
      fc.property(events, (list) => {
        const heap = createHeap(4, ranks);
        for (const [subject, [at, kind]] of list.entries()) pushEvent(heap, at, kind, subject);
        const popped: number[] = [];
        while (popEvent(heap)) popped.push(heap.subject);
        const key = (subject: number) => {
          const [at, kind] = list[subject] ?? [0, 0];
          return 10 * at + (ranks[kind] ?? 0);
        };
        const expected = [...list.keys()].sort((a, b) => key(a) - key(b) || a - b);
        expect(popped).toEqual(expected);
      }),
    );
  });

  it("stays in order when pushes and pops alternate", () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 1000 }), { maxLength: 300 }), (gaps) => {
        const heap = createHeap();
        let last = 0;
        for (const [index, gap] of gaps.entries()) {
          pushEvent(heap, last + gap, 0, index);
          if (index % 3 === 2 && popEvent(heap)) {
            expect(heap.at).toBeGreaterThanOrEqual(last);
            last = heap.at;
          }
        }
      }),
    );
  });
});
