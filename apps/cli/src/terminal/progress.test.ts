/** JSON output is readable, and progress leaves nothing on the terminal. */
import { expect, test } from "vitest";
import { fakeTerminal } from "../program.testing.ts";
import { jsonLines } from "./presentation.ts";
import { createProgress, mapWithStatus, progressLine, withStatus } from "./progress.ts";

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

// The status appears only on a terminal and is always erased, even after a failure.

test("shows the name and number of each simulation, then erases the line", () => {
  const { terminal, written } = fakeTerminal([], { showsProgress: true });
  const names = [{ name: "none" }, { name: "full" }];
  expect(mapWithStatus(terminal, names, ({ name }) => name.length)).toEqual([4, 4]);
  expect(written.err).toBe(
    "simulating none, 1 of 2 ...\r\u001b[2Ksimulating full, 2 of 2 ...\r\u001b[2K",
  );
});

test("erases the line after a failure, and writes nothing without a terminal", () => {
  const fail = () => {
    throw new Error("no");
  };
  const shown = fakeTerminal([], { showsProgress: true });
  expect(() => withStatus(shown.terminal, "x", fail)).toThrow("no");
  expect(shown.written.err).toMatch(/\[2K$/u);
  const { terminal, written } = fakeTerminal();
  expect(withStatus(terminal, "x", () => 1)).toBe(1);
  expect(written.err).toBe("");
});

test("shows the progress of a simulation, each percent once", () => {
  const { terminal, written } = fakeTerminal([], { showsProgress: true });
  withStatus(terminal, "x", (onProgress) => {
    for (const share of [0.1, 0.101, 0.5]) onProgress?.(share);
  });
  const lines = written.err.split("\r\u001b[2K");
  expect(lines).toEqual(["simulating x ...", "simulating x ... 10 %", "simulating x ... 50 %", ""]);
});
