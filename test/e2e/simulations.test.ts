/** The simulator of the built service: its reports, its refusals, and the end of its threads. */
// needs: build
import { simulate } from "@redrive/simulator";
import { decodeRun } from "@redrive/simulator/share";
import { expect, test } from "vitest";

const { threadSimulator } = (await import(
  "../../apps/cli/dist/serve/simulate-on-thread.js" as string
)) as typeof import("../../apps/cli/src/serve/simulate-on-thread.ts");

const never = new AbortController().signal;
const SCENARIO = {
  clients: { kind: "OPEN", ratePerSecond: 20 },
  tiers: [{ destination: { breaker: {}, policy: { maxAttempts: 3 } } }],
  timeline: [{ kind: "OUTAGE", atMs: 5000, forMs: 5000 }],
} as const;

test("a thread gives the same report as the simulator here, and a link to it", async () => {
  const { reportJson, link } = await threadSimulator.run(SCENARIO, 7, never);
  const expected = simulate(SCENARIO, { seed: 7 });
  const plain = JSON.stringify(expected, (_key, value) =>
    value instanceof Float64Array ? [...value] : value,
  );
  expect(JSON.parse(reportJson)).toEqual(JSON.parse(plain));
  expect(decodeRun(link)).toEqual({ run: { view: "system", seed: 7, scenarios: [SCENARIO] } });
});

test.each([
  [{ clients: { kind: "OPEN" } }, "clients.ratePerSecond must be given"],
  [null, "the scenario must be an object, got null"],
  [
    { clients: { kind: "CLOSED", count: 100_001 } },
    "clients.count must be at most 100000 in a service",
  ],
])("a thread refuses %j", async (scenario, message) => {
  await expect(threadSimulator.run(scenario, 1, never)).rejects.toThrow(message);
});

test("a thread ends when it is aborted", async () => {
  const abort = new AbortController();
  const clients = { kind: "OPEN", ratePerSecond: 100_000 };
  const endless = { clients, horizonMs: 900_000, tiers: [{ destination: { breaker: {} } }] };
  const running = threadSimulator.run(endless, 1, abort.signal);
  abort.abort(new Error("over"));
  await expect(running).rejects.toThrow("over");
});
