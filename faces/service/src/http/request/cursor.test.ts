/** Cursors: read where they were written, refused anywhere else. */
import { expect, it } from "vitest";
import { readCursor, writeCursor } from "./cursor.ts";

const scope = { tenantId: "acme", list: "tasks" };
const cursor = writeCursor(scope, "task-9") ?? "";

it("comes back as it went", () => {
  expect(readCursor(scope, cursor)).toBe("task-9");
  expect(writeCursor(scope, null)).toBeNull();
});

it.each([
  ["another tenant", { ...scope, tenantId: "other" }, cursor],
  ["another list", { ...scope, list: "attempts" }, cursor],
  ["a mangled one", scope, `x${cursor}`],
  ["nonsense", scope, "' OR 1=1--"],
])("refuses %s", (_, where, text) => {
  expect(() => readCursor(where, text)).toThrow(/cursor must be one that this list gave/);
});
