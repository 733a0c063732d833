/** Short ids are unique among the ids that they were made from. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { shortIds } from "./task-selection.ts";

const FIRST = "01a1e1b6-b1b2-7000-83d9-6258b3c1903d";

test("ids of different milliseconds are shown by their time", () => {
  expect(shortIds([FIRST, "01a1e1b6-b1b3-7000-83d9-6258b3c1903d"])).toEqual([
    "01a1e1b6-b1b2",
    "01a1e1b6-b1b3",
  ]);
});

test("ids of one millisecond are shown until they differ", () => {
  expect(shortIds([FIRST, "01a1e1b6-b1b2-7000-8444-6258b3c1903d"])).toEqual([
    "01a1e1b6-b1b2-7000-83",
    "01a1e1b6-b1b2-7000-84",
  ]);
});

test("every short id is the start of exactly one id", () => {
  const ids = fc.uniqueArray(fc.uuid({ version: 7 }), { maxLength: 12 });
  fc.assert(
    fc.property(ids, (list) => {
      for (const [index, short] of shortIds(list).entries()) {
        expect(list.filter((id) => id.startsWith(short))).toEqual([list[index]]);
      }
    }),
  );
});
