/** The flaky destination fails a share of requests, every request while broken, and can be repaired. */
import { seededRandom, virtualClock } from "@redrive/core";
import { expect, test } from "vitest";
import { flakyResponses } from "./flaky-destination.ts";

const clock = virtualClock();
const respond = flakyResponses(clock, seededRandom(1));
const share = () => {
  const statuses = Array.from({ length: 1000 }, () => respond("/orders").status);
  return statuses.filter((status) => status === 503).length / 1000;
};

test("fails one request in five until it is broken for the first time", () => {
  expect(share()).toBeGreaterThan(0.15);
  expect(share()).toBeLessThan(0.25);
});

test("fails every request while broken, until the time is over or it is repaired", async () => {
  expect(respond("/break?for=10s").body).toEqual({ broken: true, forMs: 10_000 });
  expect(share()).toBe(1);
  await clock.run(clock.sleep(10_000));
  expect(share()).toBe(0);
  respond("/break");
  expect(respond("/").body).toMatchObject({ broken: true });
  respond("/repair");
  expect(respond("/").body).toMatchObject({ broken: false });
  expect(share()).toBe(0);
});

test("refuses an invalid duration", () => {
  expect(respond("/break?for=long").status).toBe(400);
});
