/** Tests that a document which this version cannot read holds only the tasks that use it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Outcome, seededRandom, type VirtualClock, virtualClock } from "@redrive/core";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { Bodies } from "../bodies/bodies.ts";
import { createTargetPolicy } from "../deliver/address-guard.ts";
import { notStarted } from "../deliver/attempt.ts";
import { checkTarget } from "../deliver/target.ts";
import { openSecrets, sha256 } from "../intake/secrets.ts";
import { EMPTY_BATCH } from "../model/batch.ts";
import { blankDestination } from "../model/destination-row.ts";
import { uuidV7 } from "../model/ids.ts";
import type { Store } from "../model/store.ts";
import { Redrive } from "../redrive.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import { sqliteStore } from "../stores/sqlite/sqlite-store.ts";
import { Engine } from "./engine.ts";
import type { EngineEvent } from "./events.ts";

const T0 = 1_800_000_000_000;
const TENANT = "default";
const TARGET = "http://127.0.0.1:59998/";

const NEWER_POLICY = JSON.stringify({ policyId: "newer", backoff: "QUANTUM" });
const NEWER_DESTINATION = JSON.stringify({ concurrency: { algorithm: "PSYCHIC" } });

function tempSqlite(): Store {
  const folder = mkdtempSync(join(tmpdir(), "redrive-unreadable-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return sqliteStore(join(folder, "r.db"));
}

/** A service on virtual time, each of whose attempts succeeds after 10 ms. */
async function openService(clock: VirtualClock, store: Store): Promise<Redrive> {
  let lastId = 0;
  const fill = (bytes: Uint8Array) => void bytes.fill(++lastId % 256);
  const engine = await Engine.open({
    clock,
    random: seededRandom("unreadable"),
    store,
    nodeId: "node-1",
    deliver: (_, __, done) => {
      const outcome: Outcome = { kind: "success", status: 200 };
      clock.alarm(10, () => done({ ...notStarted(outcome, null), status: 200 }));
    },
  });
  await engine.start();
  const redrive = new Redrive({
    clock,
    store,
    engine,
    newId: uuidV7(fill),
    digest: sha256,
    secrets: await openSecrets(store.documents, fill, undefined),
    bodies: new Bodies({ blobs: null, newBlobId: () => "" }),
    onCommit: () => () => {},
    checkTarget: (url) => checkTarget(url, createTargetPolicy({ mode: "loopback" })),
    close: () => store.close(),
  });
  await redrive.jobs.open();
  onTestFinished(() => clock.run(redrive.stop(0)));
  return redrive;
}

/** A service on a store that another version has written. */
async function setup(inner: Store, documents: Partial<Record<"policy" | "destination", string>>) {
  const { policy, destination } = documents;
  if (policy !== undefined) {
    const row = { tenantId: TENANT, policyId: "newer", version: 1, document: policy };
    await inner.addPolicy({ ...row, createdAt: T0 });
  }
  if (destination !== undefined) {
    const row = { ...blankDestination(TENANT, "newer"), version: 1, document: destination };
    const batch = { now: T0, nodeId: "newer", ...EMPTY_BATCH, destinations: [{ row }] };
    await inner.commit(batch);
  }
  let commits = 0;
  const store: Store = {
    ...inner,
    commit: (batch) => {
      commits++;
      return inner.commit(batch);
    },
  };
  const clock = virtualClock(T0);
  const redrive = await openService(clock, store);
  const events: EngineEvent[] = [];
  redrive.onEvent((event) => events.push({ ...event }));
  const enqueue = async (fields: { destination: string; policyId?: string }) => {
    const accepted = redrive.enqueue({ targetUrl: TARGET, idempotent: true, ...fields });
    await clock.advance(5);
    return (await accepted).taskId;
  };
  const explain = async (taskId: string) => {
    const task = await redrive.get(taskId);
    if (task === null) throw new Error(`no task ${taskId}`);
    return redrive.explain(task);
  };
  const started = (taskId: string) =>
    events.filter((event) => event.type === "attempt.started" && event.taskId === taskId).length;
  const unreadable = () => events.filter(({ type }) => type === "document.unreadable");
  return { clock, redrive, enqueue, explain, started, unreadable, commits: () => commits };
}

describe.each([
  ["memory", memoryStore],
  ["SQLite", tempSqlite],
] as const)("in a %s store", (_, open) => {
  it.each([
    ["of a newer version", NEWER_POLICY],
    ["that is damaged", '{"maxAttempts": 3'],
  ])("a policy %s holds its tasks, and they continue when it is replaced", async (_, policy) => {
    const bench = await setup(open(), { policy });
    const { clock, redrive, enqueue, explain, started, unreadable, commits } = bench;
    const held = await enqueue({ destination: "one", policyId: "newer" });
    const other = await enqueue({ destination: "one" });
    await clock.advance(1000);
    expect(started(held)).toBe(0);
    expect(started(other)).toBeGreaterThan(0);
    expect(await redrive.get(held)).toMatchObject({ status: "PENDING", attemptNumber: 0 });
    expect(await explain(held)).toMatch(
      /^Attempt 1 waits: .* cannot read version 1 of policy newer/,
    );
    expect(unreadable()).toMatchObject([{ policyId: "newer", tenantId: TENANT }]);
    expect(redrive.unreadableDocuments()).toMatchObject([{ kind: "policy", name: "newer" }]);
    expect(await redrive.get(other)).toMatchObject({ status: "SUCCEEDED" });
    const before = commits();
    await clock.advance(700_000);
    // Every ten minutes a claim and its return, and the guard state of the destination.
    expect(commits() - before).toBeLessThan(8);
    // SQLite lists tasks on a thread of its own.
    await redrive.policies.replace({ policyId: "newer", totalBudgetMs: 86_400_000 });
    const hasStarted = async () => {
      await clock.advance(10);
      expect(started(held)).toBeGreaterThan(0);
    };
    await vi.waitFor(hasStarted, { timeout: 30_000 }); // a thread on a busy machine
    expect(unreadable()).toHaveLength(1);
  });

  it.each([
    ["of a newer version", NEWER_DESTINATION],
    ["that is damaged", '{"rate":'],
  ])("a destination %s holds its tasks, and they continue when it is replaced", async (_, text) => {
    const bench = await setup(open(), { destination: text });
    const { clock, redrive, enqueue, explain, started, unreadable, commits } = bench;
    const held = await enqueue({ destination: "newer" });
    const other = await enqueue({ destination: "one" });
    await clock.advance(1000);
    expect(started(held)).toBe(0);
    expect(started(other)).toBeGreaterThan(0);
    expect(await explain(held)).toMatch(/cannot read the document of destination newer/);
    expect(unreadable()).toMatchObject([{ destination: "newer", tenantId: TENANT }]);
    const health = await redrive.healthOf("newer", TENANT);
    expect(health?.unreadable).toBeTypeOf("string");
    expect(await redrive.get(other)).toMatchObject({ status: "SUCCEEDED" });
    await clock.advance(10_000);
    const before = commits();
    await clock.advance(700_000);
    expect(commits() - before).toBeLessThan(4);
    const configured = redrive.configure("newer", {});
    await clock.advance(1000);
    await configured;
    expect(started(held)).toBeGreaterThan(0);
    expect(redrive.unreadableDocuments()).toEqual([]);
  });
});

describe("unknown fields", () => {
  it("are ignored, and reported once", async () => {
    const policy = JSON.stringify({ policyId: "newer", maxAttempts: 2, quantum: true });
    const { clock, redrive, enqueue, started, unreadable } = await setup(memoryStore(), { policy });
    const ignored: EngineEvent[] = [];
    redrive.onEvent((event) => {
      if (event.type === "document.fields-ignored") ignored.push({ ...event });
    });
    const one = await enqueue({ destination: "one", policyId: "newer" });
    await enqueue({ destination: "one", policyId: "newer" });
    await clock.advance(1000);
    expect(started(one)).toBeGreaterThan(0);
    expect(unreadable()).toEqual([]);
    expect(ignored.map(({ reason }) => reason)).toEqual(['version 1 of policy "newer": quantum']);
  });
});

describe("a redrive of a newer version", () => {
  it("does not prevent the start, and is not run", async () => {
    const store = memoryStore();
    const text = JSON.stringify({ job: { status: "SCHEDULED" }, runBy: null, runUntil: 0 });
    await store.documents.put({ kind: "redrive", tenantId: TENANT, id: "r1", version: 1, text });
    await store.documents.put({
      kind: "redrive",
      tenantId: TENANT,
      id: "r2",
      version: 1,
      text: "{",
    });
    const { redrive } = await setup(store, {});
    expect(await redrive.jobs.list(TENANT)).toEqual([]);
    expect(redrive.unreadableDocuments().map(({ name }) => name)).toEqual(["r1", "r2"]);
  });
});
