/** Tests of the time limit on a virtual clock: only waits that take too long are rejected. */
import { virtualClock } from "@redrive/core";
import { expect, it } from "vitest";
import { TimeLimit } from "./http-context.ts";

it("passes a result through that arrives in time", async () => {
  const limit = new TimeLimit(virtualClock());
  await expect(limit.guard(Promise.resolve(5))).resolves.toBe(5);
  await expect(limit.guard(Promise.reject(new Error("own")))).rejects.toThrow("own");
});

it("rejects each wait after its own 4.5 s", async () => {
  const clock = virtualClock();
  const limit = new TimeLimit(clock);
  const told: string[] = [];
  const wait = (name: string) =>
    limit.guard(new Promise(() => {})).catch(({ code }) => told.push(`${name} ${code}`));
  void wait("first");
  await clock.advance(1000);
  void wait("second");
  await clock.advance(3499);
  expect(told).toEqual([]);
  await clock.advance(1);
  expect(told).toEqual(["first STORE_UNAVAILABLE"]);
  await clock.advance(1000);
  expect(told).toEqual(["first STORE_UNAVAILABLE", "second STORE_UNAVAILABLE"]);
  void wait("third");
  await clock.advance(4500);
  expect(told).toHaveLength(3);
});
