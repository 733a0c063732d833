/** Tests of the doctor's lines about the clock and the documents, and of the repair of the clock. */

import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { virtualClock } from "@redrive/core";
import { createRedrive, encryptionKeyIds, sqliteStore } from "@redrive/service";
import { describe, expect, it, onTestFinished, test } from "vitest";
import { checkClock, checkDocuments, checkEncryption, repairClock } from "./doctor-checks.ts";
import { startService } from "./running-service.ts";

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

// Tests of what the doctor says about encryption keys before the next start of a node.

const [OLD = "", NEW = ""] = [0, 1].map(() => randomBytes(32).toString("base64"));
const [old = "", fresh = ""] = [OLD, NEW].flatMap(encryptionKeyIds);

/** A fleet of two nodes that encrypt with the old key; so many have the new one, too. */
const fleet = (withNew: number) => ({
  keys: withNew > 0 ? [old, fresh] : [old],
  nodes: 2,
  nodesWith: { [old]: 2, ...(withNew > 0 && { [fresh]: withNew }) },
});

test.each([
  ["the same key", OLD, fleet(0), "ok", "all nodes have it (2)"],
  ["the new key after the old one", `${OLD},${NEW}`, fleet(0), "ok", "all nodes have it (2)"],
  ["the new key first, which nobody has", `${NEW},${OLD}`, fleet(0), "warn", "0 of 2 nodes"],
  ["the new key first, which one has", `${NEW},${OLD}`, fleet(1), "warn", "1 of 2 nodes"],
  ["the new key first, which all have", `${NEW},${OLD}`, fleet(2), "ok", "all nodes have it (2)"],
  ["only the new key", NEW, fleet(2), "fail", "not among the keys here"],
  ["no key", undefined, fleet(0), "fail", "not among the keys here"],
  ["a malformed key", "short", fleet(0), "fail", "32 bytes"],
  ["a key, and no service that runs", OLD, undefined, "ok", old],
  ["no key, and no service that runs", undefined, undefined, "ok", "plain text"],
])("%s", (_, keys, running, state, found) => {
  expect(checkEncryption(keys, running)).toMatchObject({
    state,
    found: expect.stringContaining(found),
  });
});

test("readiness says which keys the node and its fleet have", async () => {
  const config = { host: "127.0.0.1", port: 0, store: "memory:" };
  const service = await startService(config, { encryptionKey: `${NEW},${OLD}` });
  const { encryption } = await (await fetch(`${service.url}/readyz`)).json();
  expect(encryption).toEqual({
    keys: [fresh, old],
    nodes: 1,
    nodesWith: { [fresh]: 1, [old]: 1 },
  });
  await service.stop();
  const plain = await createRedrive({ store: "memory:" });
  expect(await plain.encryption()).toEqual({ keys: [], nodes: 1, nodesWith: {} });
  await plain.stop();
});
