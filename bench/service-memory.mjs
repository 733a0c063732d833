/**
 * Memory: measures a service with a million waiting tasks. Limits: 300 MiB of RSS after the start, 2 s
 * to start, and a claim that takes as long with 10^6 tasks as with 10^3, and with 10,000 destinations
 * as with 10.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { createRedrive, sqliteStore } from "@redrive/service";
import { BODY, inFolder, median, setting } from "./service-parts.mjs";

const TASKS = setting("BENCH_PENDING", 1_000_000);
const CLAIMS = 200;
const FAR_MS = 30 * 86_400_000;

/** @param {string} file @param {number} tasks @param {number} destinations @param {number} dueEach */
async function fill(file, tasks, destinations, dueEach) {
  const store = sqliteStore(file);
  const now = Date.now();
  let made = 0;
  while (made < tasks) {
    const creates = Array.from({ length: Math.min(2000, tasks - made) }, () => {
      const number = made++;
      const task = {
        taskId: String(number).padStart(36, "0"),
        tenantId: "default",
        idempotencyKey: null,
        destination: `http://d${number % destinations}.example`,
        targetUrl: "http://127.0.0.1:9/",
        method: "POST",
        headers: {},
        body: BODY,
        bodyRef: null,
        policyId: "background",
        policyVersion: 0,
        idempotent: true,
        deadlineAt: null,
        createdAt: now,
        scheduledAt: number < destinations * dueEach ? now : now + FAR_MS + number,
        labels: {},
        callbackUrl: null,
        redrivenFrom: null,
      };
      return { task, fingerprint: null, claimVersion: null };
    });
    await store.commit({ ...EMPTY, now, creates });
  }
  await store.close();
}

const EMPTY = {
  nodeId: "bench",
  destinations: [],
  creates: [],
  settles: [],
  cancels: [],
  retryNows: [],
  claims: [],
  expiresAt: null,
  wakeUps: [],
  documents: [],
};

/** The median time of a claim of one task and its release, in microseconds. @param {string} file */
async function claimMicros(file, /** @type {number} */ destinations) {
  const store = sqliteStore(file);
  const now = Date.now();
  const times = [];
  for (let n = 0; n < CLAIMS; n++) {
    const destination = `http://d${(n * 7) % destinations}.example`;
    const request = /** @type {const} */ ({
      tenantId: "default",
      destination,
      lane: "first",
      limit: 1,
      partitions: [0],
      aheadMs: 0,
      aheadLimit: 0,
      version: 0,
    });
    const startMs = performance.now();
    const { claims } = await store.commit({ ...EMPTY, now, claims: [request] });
    times.push((performance.now() - startMs) * 1000);
    if (claims[0]?.tasks.length !== 1) throw new Error("nothing was due");
  }
  await store.close();
  return median(times);
}

if (process.argv[2] === "boot") {
  const startMs = performance.now();
  const redrive = await createRedrive({ store: `sqlite:${process.argv[3]}` });
  const bootMs = performance.now() - startMs;
  await new Promise((resolve) => setTimeout(resolve, 3000));
  process.send?.({ bootMs, rssMiB: process.memoryUsage.rss() / 2 ** 20 });
  await redrive.stop();
  process.exit(0);
}

await inFolder(async (folder) => {
  /** @type {Record<string, number>} */
  const claims = {};
  for (const [tasks, destinations] of [
    [1000, 10],
    [TASKS, 10],
    [TASKS, 10_000],
  ]) {
    const due = join(folder, "due.db");
    await fill(due, tasks ?? 0, destinations ?? 1, 50);
    claims[`${tasks} waiting, ${destinations} destinations`] = await claimMicros(
      due,
      destinations ?? 1,
    );
    rmSync(due);
    if (tasks !== TASKS) continue;
    const file = join(folder, `${destinations}.db`);
    await fill(file, tasks, destinations ?? 1, 0);
    const child = fork(new URL(import.meta.url), ["boot", file]);
    const [{ bootMs, rssMiB }] = await once(child, "message");
    console.log(
      JSON.stringify({
        bench: "memory",
        tasks,
        destinations,
        bootMs,
        rssMiB,
        bar: "2000 ms, 300 MiB",
      }),
    );
    await once(child, "exit");
  }
  console.log(JSON.stringify({ bench: "claim, microseconds with fsync", ...claims, bar: "flat" }));
});
