/** Tests that tallies are written out like the metrics of prom-client. */
import fc from "fast-check";
import { Counter, Histogram, Registry } from "prom-client";
import { expect, test } from "vitest";
import { TallyCounter, TallyHistogram } from "./metrics.ts";

const BOUNDS = [0.001, 0.5, 5];
const name = "retry_test";
const help = "A test.";

/** An observation with two labels. */
const observation = fc.record({
  value: fc.constantFrom(0, 0.0005, 0.001, 0.002, 0.5, 4, 5, 6, 1000),
  outcome: fc.constantFrom("2xx", "5xx"),
  policy: fc.constantFrom("background", "other"),
});

test("a histogram and a counter with labels agree with prom-client", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(observation, { maxLength: 30 }), async (observations) => {
      const ours = new Registry();
      const theirs = new Registry();
      const labelNames = ["outcome", "policy"];
      const histogram = new TallyHistogram({ name, help, labelNames, registry: ours }, BOUNDS);
      const counter = new TallyCounter({ name: "c", help, labelNames, registry: ours });
      const registers = [theirs];
      const expected = new Histogram({ name, help, labelNames, buckets: BOUNDS, registers });
      const expectedCount = new Counter({ name: "c", help, labelNames, registers });
      for (const { value, outcome, policy } of observations) {
        histogram.observe(value, outcome, policy);
        counter.inc(outcome, policy);
        expected.observe({ outcome, policy }, value);
        expectedCount.inc({ outcome, policy });
      }
      expect(linesOf(await ours.metrics())).toEqual(linesOf(await theirs.metrics()));
    }),
  );
});

test("without labels, a series exists before the first observation", async () => {
  const ours = new Registry();
  const theirs = new Registry();
  new TallyHistogram({ name, help, registry: ours }, BOUNDS);
  new Histogram({ name, help, buckets: BOUNDS, registers: [theirs] });
  expect(linesOf(await ours.metrics())).toEqual(linesOf(await theirs.metrics()));
});

/** The order of series and of labels means nothing. */
function linesOf(text: string): readonly string[] {
  return text
    .split("\n")
    .map((line) => line.replace(/\{(.*)\}/, (_, labels: string) => labels.split(",").sort().join()))
    .sort();
}
