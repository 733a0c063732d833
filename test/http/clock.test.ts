/** Tests that a service over HTTP reports a clock that it follows or refuses, and unreadable documents. */
import type { Clock } from "@redrive/core";
import { memoryStore, systemClock } from "@redrive/service";
import { describe, expect, it, onTestFinished } from "vitest";
import { openTestServer } from "./test-server.ts";

const YEAR_MS = 365 * 86_400_000;

/** The system clock, whose wall clock a test sets. */
function settableClock(): Clock & { aheadMs: number } {
  const clock = {
    aheadMs: 0,
    now: () => systemClock.now() + clock.aheadMs,
    monotonicMs: () => systemClock.monotonicMs(),
    sleep: (...args: Parameters<Clock["sleep"]>) => systemClock.sleep(...args),
    alarm: (...args: Parameters<Clock["alarm"]>) => systemClock.alarm(...args),
    endOfTurn: (fn: () => void) => systemClock.endOfTurn(fn),
  };
  return clock;
}

describe("a service over HTTP", () => {
  it("shows the skew of a clock that jumped a year ahead, and sends nothing early", async () => {
    const clock = settableClock();
    const server = await openTestServer({ clock });
    onTestFinished(() => server.close());
    const get = (path: string) => server.call({ method: "GET", path });
    expect((await get("/readyz")).json).toMatchObject({ status: "ok", clock: { state: "synced" } });
    clock.aheadMs = YEAR_MS;
    const { clock: seen } = (await get("/readyz")).json;
    expect(Math.abs(seen.skewMs - YEAR_MS)).toBeLessThan(1000);
    const skew = /^retry_clock_skew_seconds (\S+)$/m.exec((await get("/metrics")).text)?.[1];
    expect(Math.abs(Number(skew) - YEAR_MS / 1000)).toBeLessThan(1);
    const scheduledAt = server.redrive.now() + 20_000;
    const body = { targetUrl: server.target.url, scheduledAt };
    const { taskId } = (await server.call({ body })).json;
    const task = (await get(`/retry-tasks/${taskId}`)).json;
    expect(task).toMatchObject({ status: "PENDING", nextAttemptAt: scheduledAt });
    expect(server.target.received).toEqual([]);
  });

  it("shows a policy that it cannot read, and why a task waits for it", async () => {
    const store = memoryStore();
    const row = { tenantId: "default", policyId: "newer", version: 1, createdAt: 1 };
    await store.addPolicy({ ...row, document: '{"backoff":"QUANTUM"}' });
    const server = await openTestServer({ store });
    onTestFinished(() => server.close());
    const get = (path: string) => server.call({ method: "GET", path });
    const body = { targetUrl: server.target.url, policyId: "newer" };
    const posted = await server.call({ body });
    expect(posted.status).toBe(202);
    const task = await get(`/retry-tasks/${posted.json.taskId}?include=explain`);
    expect(task.json.explain).toContain("cannot read version 1 of policy newer");
    expect((await get("/retry-policies/newer")).json.unreadable).toContain("QUANTUM");
    expect((await get("/readyz")).json).toMatchObject({ unreadableDocuments: 1 });
    expect(server.target.received).toEqual([]);
  });
});
