/** Tests of what a simulation of the service says about its inputs. */
import { expect, test } from "vitest";
import type { SimulationView } from "../service/client.ts";
import { inputsText, runAddress } from "./outage-text.ts";

const inputs = {
  ratePerSecond: 8.333,
  measuredMinutes: 1,
  latency: { p50Ms: 40.4, p99Ms: 1200 },
  waiting: 1,
} as NonNullable<SimulationView["inputs"]>;

test("says with which figures the service simulated", () => {
  expect(inputsText(inputs)).toBe(
    "8.33 calls per second in 1 minute, p50 40 ms, p99 1.2 s, 1 task waits.",
  );
  expect(inputsText({ ...inputs, measuredMinutes: 7, waiting: 1200 })).toContain(
    "in 7 minutes, p50 40 ms, p99 1.2 s, 1,200 tasks wait.",
  );
});

test("opens the run in the simulator beside the page", () => {
  expect(runAddress({ pageUrl: "/ui/simulator#1.abc" })).toBe("./simulator#1.abc");
});
