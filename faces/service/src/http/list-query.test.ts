/** Tests of cursors: valid for their own list, rejected anywhere else. */
import { expect, it } from "vitest";
import { readCursor, writeCursor } from "./list-query.ts";

const scope = { tenantId: "acme", list: "tasks" };
const cursor = writeCursor(scope, "task-9") ?? "";

it("reads back what was written", () => {
  expect(readCursor(scope, cursor)).toBe("task-9");
  expect(writeCursor(scope, null)).toBeNull();
});

it.each([
  ["another tenant", { ...scope, tenantId: "other" }, cursor],
  ["another list", { ...scope, list: "attempts" }, cursor],
  ["a mangled one", scope, `x${cursor}`],
  ["nonsense", scope, "' OR 1=1--"],
])("refuses %s", (_, where, text) => {
  expect(() => readCursor(where, text)).toThrow(/cursor must come from this list/);
});
