/** Tests that a measured scenario is valid, whatever was measured, and says what was. */
import { checkScenario } from "@redrive/simulator";
import fc from "fast-check";
import { expect, test } from "vitest";
import { destinationWith } from "./destination.testing.ts";
import { measuredScenario } from "./simulator-links.tsx";

const sixty = (value: number) => Array<number>(60).fill(value);
const history = (attempts: number, retries = 0, failed = 0) => ({
  counts: { attempts: sixty(attempts), retries: sixty(retries), failed: sixty(failed) },
});

test("uses the measured rate, latency and failures, and the guards of the service", () => {
  const latency = { p50Ms: 40, p99Ms: 400 };
  const scenario = measuredScenario(destinationWith({ latency }), history(1320, 120, 132));
  expect(scenario).toMatchObject({
    name: "pay",
    clients: { ratePerSecond: 20 },
    tiers: [
      {
        destination: { policy: "background", breaker: {}, retryBudget: {} },
        server: {
          failureRate: 0.1,
          latency: { kind: "LOGNORMAL", medianMs: 40, sigma: 0.99 },
        },
      },
    ],
  });
  expect(scenario.description).toContain("20 calls per second, p50 40 ms, p99 400 ms");
});

const figures = fc.oneof(fc.constant(0), fc.double({ min: 0, max: 1e7, noNaN: true }));

test("is a valid scenario for any measurement and any name", () => {
  const inputs = fc.tuple(fc.string({ minLength: 1 }), figures, figures, fc.nat(100_000), fc.nat());
  fc.assert(
    fc.property(inputs, ([name, p50Ms, more, attempts, limit]) => {
      const destination = destinationWith({
        name,
        latency: more === 0 ? null : { p50Ms, p99Ms: p50Ms + more },
        concurrency: limit === 0 ? null : { inFlight: 0, limit },
      });
      const scenario = measuredScenario(destination, history(attempts, 0, attempts));
      expect(checkScenario(scenario)).toEqual([]);
    }),
  );
});
