/** Simulate: telling how far a run is changes nothing about it. */
import { expect, test } from "vitest";
import type { CallsDocument } from "./scenario.ts";
import { simulate } from "./simulate.ts";

const open: CallsDocument = { horizonMs: 30_000, clients: { kind: "OPEN", ratePerSecond: 2000 } };
const closed: CallsDocument = {
  clients: { kind: "CLOSED", count: 500, jobs: 70 },
  tiers: [{ server: { hop: 1 } }],
};

test.each([
  ["open traffic, by the clock", open],
  ["clients with jobs, by what they have done", closed],
])("a long run tells its progress: %s", (_, document) => {
  const told: number[] = [];
  const report = simulate(document, { seed: 7, onProgress: (share) => told.push(share) });
  expect(report).toEqual(simulate(document, { seed: 7 }));
  expect(told.length).toBeGreaterThan(2);
  expect(told).toEqual(told.toSorted((a, b) => a - b));
  expect(told[0]).toBeLessThan(0.01);
  expect(told.at(-1)).toBeGreaterThan(0.5);
  expect(told.at(-1)).toBeLessThanOrEqual(1);
});
