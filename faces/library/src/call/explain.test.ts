/** Tests of explain: why a call failed, in plain words. */
import { RedriveError } from "@redrive/core";
import { expect, test } from "vitest";
import { destination } from "../destination/destination.ts";
import { flaky } from "../testing.ts";
import { explain } from "./explain.ts";
import { retry } from "./retry.ts";
import { rejectionOf, statusError, world } from "./world.testing.ts";

test("a call that was given up is described attempt by attempt, with the reason", async () => {
  const { clock, random } = world();
  const { fn } = flaky(clock, [
    { throws: statusError(503), afterMs: 5 },
    { throws: new Error("socket closed"), afterMs: 7 },
  ]);
  const options = { clock, random, maxAttempts: 2, jitterType: "NONE" } as const;
  expect(explain(await rejectionOf(clock.run(retry(fn, options))))).toBe(
    "Tried 2 times: attempt 1 ended after 5 ms (status 503), then waited 100 ms, " +
      "attempt 2 ended after 7 ms (socket closed). " +
      "It was given up because no attempts are left.",
  );
});

test("a call that made no attempt is described by its reason only", async () => {
  const { clock, random } = world();
  const shop = destination("shop", { clock, random, breaker: { minCalls: 1 } });
  await rejectionOf(clock.run(shop.run(() => Promise.reject(statusError(500)))));
  expect(explain(await rejectionOf(shop.run(() => 1)))).toBe(
    "It was given up because the destination's circuit is open.",
  );
});

test("an error of the operation is described as such", () => {
  const sentence = "The call failed at its first attempt with an error that is not retried.";
  expect(explain(statusError(404))).toBe(sentence);
  expect(explain(undefined)).toBe(sentence);
});

test("a call with invalid options was not made", async () => {
  const error = await rejectionOf(retry(() => 1, { maxAttempts: 0 }));
  expect(error).toBeInstanceOf(RedriveError);
  expect(explain(error)).toBe(
    "The call was not made: maxAttempts must be a whole number from 1 to 1000, got 0.",
  );
});
