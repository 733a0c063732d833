/**
 * Enqueue: measures how fast the service accepts tasks in-process, as a share of a bare SQLite loop
 * that commits the same rows in the same batches: 64 callers with one task each, and batches of 500.
 * Limit: 0.5.
 */
import { join } from "node:path";
import { createRedrive, sqliteStore } from "@redrive/service";
import { BODY, inFolder, median, setting } from "./service-parts.mjs";

const TASKS = setting("BENCH_TASKS", 40_000);
const ROUNDS = setting("BENCH_ROUNDS", 5);
const TARGET = "http://127.0.0.1:7999/";
const FAR_MS = 86_400_000;

/** A bare loop: one transaction for every `size` rows. @param {string} file @param {number} size */
async function bare(file, size) {
  const store = sqliteStore(file);
  const now = Date.now();
  const startMs = performance.now();
  for (let made = 0; made < TASKS; made += size) {
    const creates = Array.from({ length: size }, (_, index) => ({
      task: {
        taskId: String(made + index).padStart(36, "0"),
        tenantId: "default",
        idempotencyKey: null,
        destination: "http://127.0.0.1:7999",
        targetUrl: TARGET,
        method: "POST",
        headers: {},
        body: BODY,
        bodyRef: null,
        policyId: "background",
        policyVersion: 0,
        idempotent: true,
        deadlineAt: null,
        createdAt: now,
        scheduledAt: now + FAR_MS,
        labels: {},
        callbackUrl: null,
        redrivenFrom: null,
      },
      fingerprint: null,
      claimVersion: null,
    }));
    await store.commit({
      now,
      nodeId: "bare",
      destinations: [],
      creates,
      settles: [],
      cancels: [],
      retryNows: [],
      claims: [],
      expiresAt: null,
      wakeUps: [],
      documents: [],
    });
  }
  const rate = TASKS / ((performance.now() - startMs) / 1000);
  await store.close();
  return rate;
}

/** @param {string} file @param {(redrive: import("@redrive/service").Redrive) => Promise<void>} work */
async function ours(file, work) {
  const redrive = await createRedrive({ store: `sqlite:${file}` });
  const startMs = performance.now();
  await work(redrive);
  const rate = TASKS / ((performance.now() - startMs) / 1000);
  await redrive.stop();
  return rate;
}

const input = () => ({ targetUrl: TARGET, body: BODY, scheduledAt: Date.now() + FAR_MS });

/** @param {import("@redrive/service").Redrive} redrive */
async function byCallers(redrive) {
  let left = TASKS;
  const caller = async () => {
    while (left-- > 0) await redrive.enqueue(input());
  };
  await Promise.all(Array.from({ length: 64 }, caller));
}

/** @param {import("@redrive/service").Redrive} redrive */
async function byBatches(redrive) {
  for (let left = TASKS; left > 0; left -= 500) {
    await redrive.enqueueMany(Array.from({ length: 500 }, input));
  }
}

await inFolder(async (folder) => {
  /** @type {Record<string, number[]>} */
  const shares = { "64 callers": [], "batches of 500": [] };
  let file = 0;
  const next = () => join(folder, `${++file}.db`);
  for (let round = 0; round <= ROUNDS; round++) {
    const rates = [
      ["64 callers", await bare(next(), 64), await ours(next(), byCallers)],
      ["batches of 500", await bare(next(), 500), await ours(next(), byBatches)],
    ];
    for (const [name, base, own] of /** @type {[string, number, number][]} */ (rates)) {
      console.log(
        `${name}: bare ${base.toFixed(0)}/s, ours ${own.toFixed(0)}/s, share ${(own / base).toFixed(2)}`,
      );
      // The first round is a warmup.
      if (round > 0) shares[name]?.push(own / base);
    }
  }
  for (const [name, values] of Object.entries(shares)) {
    console.log(JSON.stringify({ bench: `enqueue, ${name}`, share: median(values), bar: 0.5 }));
  }
});
