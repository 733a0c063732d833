/** The herd's store: a link is opened whole or refused, never cut. */
import { RedriveError } from "@redrive/core";
import { MAX_STRATEGIES } from "@redrive/simulator";
import { afterEach, expect, test } from "vitest";
import type { RunOf } from "../view.ts";
import { herdRun, openHerd, resetHerd, strategies } from "./herd-store.ts";

afterEach(resetHerd);

function runOfMany(count: number): RunOf<"herd"> {
  const names = Array.from({ length: count }, (_, place) => `policy-${place}`);
  return {
    view: "herd",
    seed: 7,
    strategies: names.map((name, place) => ({ name, policy: { initialDelayMs: 100 + place } })),
    clients: 1000,
    windowMs: 10,
  };
}

test("opens as many strategies as the command line takes, every one", async () => {
  const run = runOfMany(MAX_STRATEGIES);
  (await openHerd(run))();
  expect(herdRun()).toEqual(run);
});

test("keeps in a link whether each strategy has a scale of its own", async () => {
  (await openHerd({ ...runOfMany(2), ownScales: true }))();
  expect(herdRun().ownScales).toBe(true);
  resetHerd();
  expect(herdRun()).not.toHaveProperty("ownScales");
});

test.each([0, MAX_STRATEGIES + 1])("refuses a link with %i, and says how many", async (count) => {
  const before = strategies.value;
  const refusal = await openHerd(runOfMany(count)).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(RedriveError);
  expect(refusal).toMatchObject({
    code: "INVALID_ARGUMENT",
    message: `a link must name 1 to 6 strategies, got ${count}`,
  });
  expect(strategies.value).toBe(before);
});
