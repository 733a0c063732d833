/** Tests of the heap, against a sorted list. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createHeap } from "./heap.ts";

describe("a heap", () => {
  it("returns its items in order", () => {
    fc.assert(
      fc.property(fc.array(fc.integer()), (numbers) => {
        const heap = createHeap<number>((a, b) => a < b);
        for (const number of numbers) heap.push(number);
        expect(heap.size()).toBe(numbers.length);
        const out = numbers.map(() => heap.pop());
        expect(out).toEqual(numbers.toSorted((a, b) => a - b));
        expect(heap.pop()).toBeUndefined();
      }),
    );
  });

  it("keeps the smallest on top through pushes and pops in any order", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -100, max: 100 })), (steps) => {
        const heap = createHeap<number>((a, b) => a < b);
        const model: number[] = [];
        for (const step of steps) {
          if (step < 0) {
            expect(heap.pop()).toBe(model.shift());
          } else {
            heap.push(step);
            model.push(step);
            model.sort((a, b) => a - b);
          }
          expect(heap.peek()).toBe(model[0]);
        }
      }),
    );
  });
});
