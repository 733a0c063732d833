/** Tests that calls to a destination start one by one after they were stopped. */
import { classifyOutcome, resolvePolicy, seededRandom } from "@redrive/core";
import { describe, expect, it } from "vitest";
import type { DestinationRow } from "../model/destination-row.ts";
import { DESTINATION, TENANT } from "../stores/store.testing.ts";
import { DestinationRuntime } from "./destination-runtime.ts";
import { FAILED, OK, setup as setUpEngine } from "./engine.testing.ts";

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
    const outcome = { kind: "status", status } as const;
    destination.recordOutcome(permit, now, policy, outcome, classifyOutcome(policy, outcome), 10);
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

describe("a request that hangs after the slow start began does not stop the others", () => {
  const ASKED = { kind: "status", status: 503, retryAfterMs: 5000 } as const;

  /** 20 tasks wait for the end of a stop. The first of them that is sent gets no response. */
  async function withHangingRequest(stop: "breaker" | "gate" | "pause") {
    const { clock, enqueue, sent, script, engine } = await setUpEngine({
      maxAttempts: 1,
      attemptTimeoutMs: 60_000,
      totalBudgetMs: 3_600_000,
    });
    const minCalls = stop === "breaker" ? 2 : 20;
    const document = JSON.stringify({ breaker: { minCalls, openMs: 5000 } });
    const change = (pausedAt: number | null) =>
      clock.run(engine.changeDestination(TENANT, DESTINATION, { document, pausedAt }));
    await change(stop === "pause" ? clock.now() : null);
    if (stop === "gate") script.push(ASKED);
    if (stop === "breaker") script.push(FAILED, FAILED);
    for (let n = script.length; n > 0; n--) enqueue();
    await clock.advance(50);
    const before = sent.length;
    for (let n = 0; n < 20; n++) enqueue();
    // The probe of the breaker succeeds. The next request hangs.
    if (stop === "breaker") script.push(OK);
    const hanging = before + (stop === "breaker" ? 2 : 1);
    if (stop === "pause") await change(null);
    for (let step = 0; step < 800 && sent.length < hanging; step++) await clock.advance(10);
    expect(sent).toHaveLength(hanging);
    script.push(...Array.from({ length: 20 }, () => OK));
    return { clock, sent, last: before + 20 };
  }

  it.each(["breaker", "gate", "pause"] as const)("%s", async (stop) => {
    const { clock, sent, last } = await withHangingRequest(stop);
    await clock.advance(2000);
    expect(sent).toHaveLength(last);
  });
});

describe("after an outage", () => {
  /** Ten tasks per second, through an outage of two and a half minutes. Returns the attempts per second. */
  async function attemptsPerSecond(document: object, minutesAfter: number) {
    const policy = { maxAttempts: 100, initialDelayMs: 1000, totalBudgetMs: 3_600_000 };
    const { clock, engine, enqueue, sent } = await setUpEngine(policy);
    await engine.changeDestination(TENANT, DESTINATION, { document: JSON.stringify(document) });
    const startAt = clock.now();
    let answered = 0;
    const run = async (seconds: number, outcome: typeof OK) => {
      for (let tick = 0; tick < seconds * 50; tick++) {
        if (tick % 5 === 0) enqueue();
        await clock.advance(20);
        for (; answered < sent.length; answered++) sent[answered]?.finish(outcome);
      }
    };
    await run(60, OK);
    await run(150, FAILED);
    await run(minutesAfter * 60, OK);
    const counts: number[] = Array(210 + minutesAfter * 60).fill(0);
    for (const { at } of sent) counts[Math.floor((at - startAt) / 1000)]!++;
    return { usual: counts.slice(0, 60), after: counts.slice(210) };
  }

  it("a backlog leaves at three times what the destination usually gets, not at what the limit allows", async () => {
    const { usual, after } = await attemptsPerSecond({}, 4);
    expect(Math.max(...usual)).toBeLessThanOrEqual(11);
    expect(Math.max(...after)).toBeLessThanOrEqual(41);
    // The backlog of 1,500 leaves, and then the usual calls start at once again.
    expect(after.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(1500 + 2000);
    expect(Math.max(...after.slice(-10))).toBeLessThanOrEqual(11);
  });

  it("the document says how many times", async () => {
    const { after } = await attemptsPerSecond({ concurrency: { rampFactor: 10 } }, 1);
    expect(Math.max(...after)).toBeGreaterThan(80);
    expect(Math.max(...after)).toBeLessThanOrEqual(115);
  });
});
