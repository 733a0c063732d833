/** View links: any set of answers gives links that the other views accept. */
import { resolvePolicy } from "@redrive/core";
import { type Answers, advise, checkScenario } from "@redrive/simulator";
import { decodeRun, encodeRun } from "@redrive/simulator/share";
import { expect, test } from "vitest";
import { scenarioOf, viewLinks } from "./outcome.tsx";

const CASES: readonly Answers[] = [
  {},
  { waits: "person", idempotent: "yes", clients: "few" },
  { background: true, outageMs: 86_400_000, clients: "very-many" },
  { shards: 3, outageMs: 0 },
  { idempotent: "no", minimumWait: true, outageMs: 1 },
];

test.each(CASES)("%j gives a valid scenario and links that open", (answers) => {
  const advice = advise(answers);
  const scenario = scenarioOf(advice, answers.outageMs ?? 8000);
  expect(checkScenario(scenario)).toEqual([]);
  for (const { run } of viewLinks(advice, answers)) {
    expect(decodeRun(encodeRun(run()))).toEqual({ run: run() });
  }
  const herd = viewLinks(advice, answers)[1]?.run();
  if (herd?.view !== "herd") throw new Error("the second link opens Herd");
  for (const { policy } of herd.strategies)
    expect(() => resolvePolicy(policy as object)).not.toThrow();
});
