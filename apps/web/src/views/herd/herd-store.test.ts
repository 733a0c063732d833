/** Herd store: a link opens completely or is rejected, never partially. */
import { RedriveError } from "@redrive/core";
import { MAX_STRATEGIES } from "@redrive/simulator";
import { afterEach, expect, test } from "vitest";
import type { RunOf } from "../view.ts";
import { herdRun, openHerd, resetHerd, strategies } from "./herd-store.ts";

afterEach(resetHerd);

function runOfMany(count: number): RunOf<"herd"> {
  const names = Array.from({ length: count }, (_, index) => `policy-${index}`);
  return {
    view: "herd",
    seed: 7,
    strategies: names.map((name, index) => ({ name, policy: { initialDelayMs: 100 + index } })),
    clients: 1000,
    windowMs: 10,
  };
}

test("opens as many strategies as the command line accepts", async () => {
  const run = runOfMany(MAX_STRATEGIES);
  (await openHerd(run))();
  expect(herdRun()).toEqual(run);
});

test("a link stores whether each strategy has its own scale", async () => {
  (await openHerd({ ...runOfMany(2), ownScales: true }))();
  expect(herdRun().ownScales).toBe(true);
  resetHerd();
  expect(herdRun()).not.toHaveProperty("ownScales");
});

test.each([0, MAX_STRATEGIES + 1])(
  "rejects a link with %i strategies and gives the limits",
  async (count) => {
    const before = strategies.value;
    const error = await openHerd(runOfMany(count)).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(RedriveError);
    expect(error).toMatchObject({
      code: "INVALID_ARGUMENT",
      message: `a link must name 1 to 6 strategies, got ${count}`,
    });
    expect(strategies.value).toBe(before);
  },
);
