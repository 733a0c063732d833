/** The flaky destination fails a share of the time, all the time while broken, and can be mended. */
import { seededRandom, virtualClock } from "@redrive/core";
import { expect, test } from "vitest";
import { flakyResponses } from "./flaky-destination.ts";

const clock = virtualClock();
const answer = flakyResponses(clock, seededRandom(1));
const share = () => {
  const statuses = Array.from({ length: 1000 }, () => answer("/orders").status);
  return statuses.filter((status) => status === 503).length / 1000;
};

test("fails one time in five while it is well", () => {
  expect(share()).toBeGreaterThan(0.15);
  expect(share()).toBeLessThan(0.25);
});

test("fails always while it is broken, until the span is over or it is mended", async () => {
  expect(answer("/break?for=10s").body).toEqual({ broken: true, forMs: 10_000 });
  expect(share()).toBe(1);
  await clock.run(clock.sleep(10_000));
  expect(share()).toBeLessThan(0.25);
  answer("/break");
  expect(answer("/").body).toMatchObject({ broken: true });
  answer("/mend");
  expect(answer("/").body).toMatchObject({ broken: false });
});

test("a span that is none is refused", () => {
  expect(answer("/break?for=long").status).toBe(400);
});
