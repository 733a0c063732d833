/** Tests that calls to a destination start one by one after they were stopped. */
import { resolvePolicy, seededRandom } from "@redrive/core";
import { describe, expect, it } from "vitest";
import type { DestinationRow } from "../model/destination-row.ts";
import { DestinationRuntime } from "./destination/destination-runtime.ts";

const NOW = 1_000_000;
const OPEN_MS = 5000;
const policy = resolvePolicy({});
const DOCUMENT = JSON.stringify({
  breaker: { failureRate: 0.5, minCalls: 2, openMs: OPEN_MS },
  concurrency: { max: 10 },
});

function setup() {
  const key = { tenantId: "t", name: "d" };
  const destination = new DestinationRuntime(seededRandom(1), key, NOW, undefined);
  /** Another node writes the row. */
  const adopt = (change: Partial<DestinationRow>, now: number) => {
    const { row } = destination;
    destination.adopt({ ...row, ...change, version: row.version + 1 }, now);
  };
  adopt({ document: DOCUMENT }, NOW);
  const attempt = (status: number, now: number) => {
    const permit = destination.takePermit(false, now);
    if (permit === undefined) throw new Error(`held by ${destination.heldBy}`);
    destination.recordOutcome(permit, now, policy, { kind: "status", status }, 10);
  };
  /** How many of ten calls may start. */
  const started = (now: number) => {
    const permits = Array.from({ length: 10 }, () => destination.takePermit(false, now));
    return permits.filter((permit) => permit !== undefined).length;
  };
  return { destination, adopt, attempt, started };
}

describe("a destination starts slowly", () => {
  it("not without a stop", () => {
    expect(setup().started(NOW)).toBe(10);
  });

  it("after its probe has closed the circuit", () => {
    const { destination, attempt, started } = setup();
    for (let n = 0; n < 2; n++) attempt(500, NOW);
    expect(destination.guards.breaker?.state).toBe("OPEN");
    const probeAt = destination.guards.breaker?.openUntil ?? 0;
    for (let now = probeAt; destination.guards.breaker?.state !== "CLOSED"; now += 1) {
      expect(now).toBeLessThan(probeAt + 100);
      attempt(204, now);
    }
    expect(started(probeAt + 100)).toBe(1);
    expect(destination.heldBy).toBe("concurrency");
  });

  it("after another node has closed the circuit", () => {
    const { adopt, started } = setup();
    adopt({ breakerState: "OPEN", openUntil: NOW + OPEN_MS, openCount: 1 }, NOW);
    expect(started(NOW)).toBe(0);
    adopt({ breakerState: "CLOSED", openUntil: 0 }, NOW + 1);
    expect(started(NOW + 1)).toBe(1);
  });

  it("after a pause", () => {
    const { adopt, started } = setup();
    adopt({ pausedAt: NOW }, NOW);
    expect(started(NOW)).toBe(0);
    adopt({ pausedAt: null }, NOW + 1);
    expect(started(NOW + 1)).toBe(1);
  });

  it("after a gate, but not after one that had ended when this node learned of it", () => {
    const gated = setup();
    gated.adopt({ gateUntil: NOW + 10 }, NOW);
    expect(gated.started(NOW)).toBe(0);
    expect(gated.started(NOW + 10)).toBe(1);
    const late = setup();
    late.adopt({ gateUntil: NOW + 10 }, NOW + 20);
    expect(late.started(NOW + 20)).toBe(10);
  });
});
