/** Status is told to those who look on, and gone whatever becomes of the work. */
import { expect, test } from "vitest";
import { fakeScreen } from "./screen.testing.ts";
import { mapWithStatus, withStatus } from "./status.ts";

test("names each simulation and its place, and erases the line", () => {
  const { screen, written } = fakeScreen([], { isWatched: true });
  const names = [{ name: "none" }, { name: "full" }];
  expect(mapWithStatus(screen, names, ({ name }) => name.length)).toEqual([4, 4]);
  expect(written.err).toBe(
    "simulating none, 1 of 2 ...\r\u001b[2Ksimulating full, 2 of 2 ...\r\u001b[2K",
  );
});

test("erases the line after a failure, and writes nothing where nobody looks", () => {
  const fail = () => {
    throw new Error("no");
  };
  const watched = fakeScreen([], { isWatched: true });
  expect(() => withStatus(watched.screen, "x", fail)).toThrow("no");
  expect(watched.written.err).toMatch(/\[2K$/u);
  const { screen, written } = fakeScreen();
  expect(withStatus(screen, "x", () => 1)).toBe(1);
  expect(written.err).toBe("");
});

test("tells how far a simulation is, each percent once", () => {
  const { screen, written } = fakeScreen([], { isWatched: true });
  withStatus(screen, "x", (onProgress) => {
    for (const share of [0.1, 0.101, 0.5]) onProgress?.(share);
  });
  const told = written.err.split("\r\u001b[2K");
  expect(told).toEqual(["simulating x ...", "simulating x ... 10 %", "simulating x ... 50 %", ""]);
});
