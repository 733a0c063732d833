/** Tests of the checker itself: a rate is counted in windows of the nodes' own times. */
import { describe, expect, it } from "vitest";
import type { Committed, Sent } from "../history.ts";
import { fleetLimits } from "./fleet-limits.ts";

function setup() {
  const checker = fleetLimits();
  const document = JSON.stringify({ rate: { perSecond: 1, burst: 1 } });
  const row = { tenantId: "t", name: "d", document };
  const write = { at: 0, batch: { destinations: [{ row }] }, result: { destinations: [null] } };
  checker.committed?.(write as unknown as Committed);
  let sent = 0;
  return (claimedAt: number) => {
    const task = { tenantId: "t", destination: "d", taskId: `${++sent}`, attemptNumber: 1 };
    const event = { at: claimedAt, task: { ...task, claimedAt }, sleptMs: 0, document };
    checker.sent?.(event as unknown as Sent);
  };
}

/** Claims at the allowed rate, for forty seconds. */
const USUAL = Array.from({ length: 40 }, (_, second) => 100_000 + 1000 * second);

describe("the rate of a fleet", () => {
  it("is kept by a node that slept and whose claim is older than those before", () => {
    const send = setup();
    for (const at of USUAL) send(at);
    expect(() => send(115_500)).not.toThrow();
  });

  it("is not kept by older claims that exceed a window together with later ones", () => {
    const send = setup();
    for (const at of USUAL) send(at);
    const late = () => {
      for (let ms = 1; ms <= 6; ms++) send(115_500 + ms);
    };
    expect(late).toThrow("limits of the fleet kept");
  });
});
