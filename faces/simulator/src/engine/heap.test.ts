/** Heap: order by time, ties by order of pushing, as a property. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createHeap, popEvent, pushEvent } from "./heap.ts";

describe("heap", () => {
  it("gives events back by time, ties in the order of pushing", () => {
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
