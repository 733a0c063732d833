/** Herds side by side as rows: one window for all, and nothing where a herd has ended. */
import { expect, test } from "vitest";
import { herd } from "../schedule/herd.ts";
import { herdRows } from "./herd-rows.ts";

test("a row a window, a column a herd", () => {
  const of = (maxAttempts: number) =>
    herd(
      { maxAttempts, initialDelayMs: 10, jitterType: "NONE", backoff: "FIXED" },
      { clients: 5, windowMs: 10 },
    );
  const rows = herdRows([
    { name: "short", herd: of(2) },
    { name: "long", herd: of(3) },
  ]);
  expect(rows).toEqual([
    ["atMs", "short", "long"],
    [0, 0, 0],
    [10, 5, 5],
    [20, 0, 5],
  ]);
});
