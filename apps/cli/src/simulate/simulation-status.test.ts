/** Status is told to those who look on, and gone whatever becomes of the work. */
import { expect, test } from "vitest";
import { fakeTerminal } from "../program.testing.ts";
import { mapWithStatus, withStatus } from "./simulation-status.ts";

test("names each simulation and its place, and erases the line", () => {
  const { terminal, written } = fakeTerminal([], { showsProgress: true });
  const names = [{ name: "none" }, { name: "full" }];
  expect(mapWithStatus(terminal, names, ({ name }) => name.length)).toEqual([4, 4]);
  expect(written.err).toBe(
    "simulating none, 1 of 2 ...\r\u001b[2Ksimulating full, 2 of 2 ...\r\u001b[2K",
  );
});

test("erases the line after a failure, and writes nothing where nobody looks", () => {
  const fail = () => {
    throw new Error("no");
  };
  const watched = fakeTerminal([], { showsProgress: true });
  expect(() => withStatus(watched.terminal, "x", fail)).toThrow("no");
  expect(watched.written.err).toMatch(/\[2K$/u);
  const { terminal, written } = fakeTerminal();
  expect(withStatus(terminal, "x", () => 1)).toBe(1);
  expect(written.err).toBe("");
});

test("tells how far a simulation is, each percent once", () => {
  const { terminal, written } = fakeTerminal([], { showsProgress: true });
  withStatus(terminal, "x", (onProgress) => {
    for (const share of [0.1, 0.101, 0.5]) onProgress?.(share);
  });
  const told = written.err.split("\r\u001b[2K");
  expect(told).toEqual(["simulating x ...", "simulating x ... 10 %", "simulating x ... 50 %", ""]);
});
