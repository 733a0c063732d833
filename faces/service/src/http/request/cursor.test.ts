/** Cursors: read where they were written, refused anywhere else. */
import { expect, it } from "vitest";
import { readCursor, writeCursor } from "./cursor.ts";

const place = { tenantId: "acme", list: "tasks" };
const cursor = writeCursor(place, "task-9") ?? "";

it("comes back as it went", () => {
  expect(readCursor(place, cursor)).toBe("task-9");
  expect(writeCursor(place, null)).toBeNull();
});

it.each([
  ["another tenant", { ...place, tenantId: "other" }, cursor],
  ["another list", { ...place, list: "attempts" }, cursor],
  ["a mangled one", place, `x${cursor}`],
  ["nonsense", place, "' OR 1=1--"],
])("refuses %s", (_, where, text) => {
  expect(() => readCursor(where, text)).toThrow(/cursor must be one that this list gave/);
});
