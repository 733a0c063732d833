/** Tests that a difference lists exactly the fields that change, readably. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { changesOf } from "./document-editor.tsx";

test("changed, added and removed fields are listed with their values", () => {
  const before = { maxAttempts: 5, breaker: { openMs: 5000, minCalls: 20 }, list: [1, 2], x: true };
  const after = {
    maxAttempts: 5,
    breaker: { openMs: 90_000, minCalls: 20 },
    list: [1],
    rate: null,
  };
  expect(changesOf(before, after)).toEqual([
    { field: "breaker.openMs", before: "5 s", after: "90 s" },
    { field: "list", before: "1, 2", after: "1" },
    { field: "x", before: "on", after: "off" },
    { field: "rate", before: "off", after: "none" },
  ]);
});

const documents = fc.dictionary(
  fc.constantFrom("a", "b", "delayMs"),
  fc.oneof(
    fc.nat(),
    fc.boolean(),
    fc.array(fc.nat()),
    fc.dictionary(fc.constantFrom("c"), fc.nat()),
  ),
);

test("equal documents have no changes, and changes are symmetric", () => {
  fc.assert(
    fc.property(documents, documents, (one, other) => {
      expect(changesOf(one, structuredClone(one))).toEqual([]);
      const there = changesOf(one, other).map(({ field, before, after }) => [field, before, after]);
      const back = changesOf(other, one).map(({ field, before, after }) => [field, after, before]);
      expect(there.sort()).toEqual(back.sort());
    }),
  );
});
