/** Tests of the doctor's lines about the clock and the documents, and of the repair of the clock. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { virtualClock } from "@redrive/core";
import { sqliteStore } from "@redrive/service";
import { describe, expect, it, onTestFinished } from "vitest";
import { checkClock, repairClock } from "./doctor-clock.ts";
import { checkDocuments } from "./doctor-documents.ts";

const T0 = 1_800_000_000_000;
const HOUR_MS = 3_600_000;

/** A store that was last used at that time. */
async function storeAt(now: number, document = "{}"): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "redrive-doctor-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "r.db");
  const store = sqliteStore(path);
  await store.renew({
    nodeId: "n",
    round: 1,
    now,
    leaseMs: 0,
    isLeaving: false,
    takesAll: true,
    partitions: [0],
    handledHints: [],
    destinations: [],
  });
  const policy = { tenantId: "acme", policyId: "p", version: 1, document, createdAt: now };
  await store.addPolicy(policy);
  await store.close();
  return `sqlite:${path}`;
}

describe("the doctor", () => {
  it.each([
    [0, "ok"],
    [60_000, "warn"],
    [2 * HOUR_MS, "fail"],
  ])("reports a store that is %d ms ahead as %s", async (aheadMs, state) => {
    const store = await storeAt(T0 + aheadMs);
    expect(checkClock(virtualClock(T0), { store })).toMatchObject({ name: "clock", state });
  });

  it("repairs it, once", async () => {
    const store = await storeAt(T0 + 2 * HOUR_MS);
    const clock = virtualClock(T0);
    expect(checkClock(clock, { store }).fix).toContain("redrive doctor --repair-clock");
    expect(repairClock(clock, store).found).toContain("was 2 h ahead and was reset");
    expect(checkClock(clock, { store }).state).toBe("ok");
    expect(repairClock(clock, store).found).toContain("nothing was changed");
  });

  it("refuses to repair a store that does not exist", () => {
    expect(() => repairClock(virtualClock(T0), "memory:")).toThrow(/needs an existing store/);
  });

  it.each([
    [{ state: "synced", skewMs: 0 }, "ok"],
    [{ state: "following", skewMs: HOUR_MS }, "warn"],
    [{ state: "refused", skewMs: -24 * HOUR_MS }, "fail"],
  ] as const)("reports the clock of a running service, %o", (running, state) => {
    expect(checkClock(virtualClock(T0), { store: "memory:" }, running).state).toBe(state);
  });

  it("names the documents that cannot be read", async () => {
    expect(checkDocuments(await storeAt(T0)).state).toBe("ok");
    const broken = checkDocuments(await storeAt(T0, '{"backoff":"QUANTUM"}'));
    expect(broken).toMatchObject({ name: "documents", state: "warn" });
    expect(broken.found).toContain("version 1 of policy p of tenant acme");
    expect(checkDocuments("memory:", 2).state).toBe("warn");
  });
});
