/** The queue chart of a report shows the longest wait, even if it was short-lived. */
import { type ScenarioDocument, scenarios, simulate } from "@redrive/simulator";
import { expect, test } from "vitest";
import { fakeTerminal } from "../program.testing.ts";
import { reportText } from "./run.ts";

test("one long wait in the queue reaches the top of its chart", () => {
  const scenario = scenarios["brownout"] as ScenarioDocument;
  const report = simulate(scenario, { seed: 7 });
  const queueMs = new Float64Array(report.series.queueMs.length);
  queueMs[Math.floor(queueMs.length / 2)] = 500;
  const spiked = { ...report, series: { ...report.series, queueMs } };
  const lines = reportText(scenario, spiked, fakeTerminal().terminal);
  const chart = lines.slice(lines.indexOf("longest wait in the server's queue") + 1);
  expect(chart[0]).toMatch(/^500 ms ┤ +█$/u);
});
