/** JSON output is readable, and progress leaves nothing on the terminal. */
import { expect, test } from "vitest";
import { jsonLines } from "./json-lines.ts";
import { createProgress, progressLine } from "./progress.ts";

test("lists of plain values are on one line, and the JSON value is unchanged", () => {
  const value = { codes: [429, 503], names: ["a]\n[", "b"], nested: [{ x: [] }, { y: [1] }] };
  const lines = jsonLines(value);
  expect(lines).toContain('  "codes": [429, 503],');
  expect(JSON.parse(lines.join("\n"))).toEqual(value);
});

test("progress appears after two seconds and is erased at the end", () => {
  const written: string[] = [];
  const progress = createProgress((text) => written.push(text), { width: 80, isShown: true });
  const view = { done: 1, total: 4, what: "occ" };
  progress.draw({ ...view, elapsedMs: 1999 });
  progress.clear();
  expect(written).toEqual([]);
  progress.draw({ ...view, elapsedMs: 2500 });
  progress.clear();
  progress.clear();
  expect(written).toEqual(["\r\u001b[2K█████··············· 1 of 4, 2 s: occ", "\r\u001b[2K"]);
  expect(progressLine({ ...view, elapsedMs: 0 }, 10)).toHaveLength(9);
});
