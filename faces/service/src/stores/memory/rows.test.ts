/** Compares a pair map with a map whose keys join both texts. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { PairMap } from "./rows.ts";

const text = fc.constantFrom("", "a", "b", "ab");
const step = fc.record({ isDelete: fc.boolean(), first: text, second: text, value: fc.nat() });

it("holds what a map with joined keys holds", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const pairs = new PairMap<number>();
      const joined = new Map<string, number>();
      for (const { isDelete, first, second, value } of steps) {
        if (isDelete) pairs.delete(first, second);
        else pairs.set(first, second, value);
        if (isDelete) joined.delete(`${first}\n${second}`);
        else joined.set(`${first}\n${second}`, value);
        expect(pairs.get(first, second)).toBe(joined.get(`${first}\n${second}`));
      }
      expect([...pairs.values()].sort()).toEqual([...joined.values()].sort());
      const ofA = [...joined].filter(([key]) => key.startsWith("a\n")).map(([, value]) => value);
      expect(pairs.ofFirst("a")).toEqual(ofA);
    }),
  );
});
