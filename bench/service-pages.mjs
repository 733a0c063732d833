/**
 * `node bench/service-pages.mjs [--against <checkout>]`: counts the pages that the SQLite store adds
 * to its write-ahead log per task, for creating, claiming and settling it. Each row is a kind of task
 * and a batch size. The counts do not depend on the speed of the machine.
 */
import { statSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { otherCheckout } from "./against.mjs";
import { inFolder, setting } from "./service-parts.mjs";

/** Tasks that exist before, so that the indexes have several levels. */
const BEFORE = setting("BENCH_BEFORE", 30_000);
const TASKS = 64;
/** A page in the log has a header of 24 bytes. */
const FRAME_BYTES = 4096 + 24;
const T0 = 1_800_000_000_000;
const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** @type {Record<string, (n: number) => object>} */
const KINDS = {
  plain: () => ({}),
  "1000 destinations": (n) => ({ destination: `https://example.com/${(n * 7919) % 1000}` }),
  key: (n) => ({ idempotencyKey: `order-${(n * 7919) % 1_000_003}` }),
  "2 labels": (n) => ({ labels: { order: `${(n * 7919) % 1_000_003}`, region: "eu" } }),
};

/** @typedef {import("../faces/service/src/model/store.ts").Store} Store */
/** @typedef {import("../faces/service/src/model/batch.ts").Batch} Batch */
/** @typedef {import("../faces/service/src/model/batch.ts").Create} Create */

/**
 * @param {string} root of a built checkout
 * @param {string} folder
 * @param {{ name: string, fields: (n: number) => object, size: number }} kind
 * @returns {Promise<string>}
 */
async function row(root, folder, { name, fields, size }) {
  const module = join(root, "faces/service/dist/stores/sqlite/sqlite-store.js");
  const { sqliteStore } = await import(pathToFileURL(module).href);
  const file = join(folder, "pages.db");
  /** @type {Store} */
  const store = sqliteStore(file);
  let last = 0;
  const creates = (/** @type {number} */ count) =>
    Array.from({ length: count }, () => create(++last, fields(last)));
  for (let n = 0; n < BEFORE; n += 500) await end(store, await claimed(store, creates(500)));
  const results = [];
  for (const [what, step] of Object.entries(STEPS)) {
    const batches = [];
    for (let n = 0; n < TASKS; n += size) {
      const made = creates(size);
      batches.push(what === "create" ? made : await prepared(store, made, what));
    }
    emptyLog(root, file);
    for (const made of batches) await step(store, made);
    results.push(`${what} ${(statSync(`${file}-wal`).size / FRAME_BYTES / TASKS).toFixed(1)}`);
  }
  await store.close();
  return `  ${name.padEnd(18)} batch of ${String(size).padStart(2)}: ${results.join("  ")}`;
}

/** @type {Record<string, (store: Store, made: any) => Promise<unknown>>} */
const STEPS = {
  create: (store, made) => store.commit(batch({ creates: made })),
  claim: (store, made) => claim(store, made),
  succeed: (store, tasks) => end(store, tasks),
  retry: (store, tasks) => end(store, tasks, "PENDING"),
  "dead-letter": (store, tasks) => end(store, tasks, "EXHAUSTED"),
};

/**
 * What a step needs: waiting tasks to claim, or claimed tasks to settle.
 *
 * @param {Store} store
 * @param {Create[]} made
 * @param {string} what
 */
async function prepared(store, made, what) {
  if (what !== "claim") return claimed(store, made);
  await store.commit(batch({ creates: made }));
  return made;
}

/**
 * @param {Store} store
 * @param {Create[]} made
 */
async function claimed(store, made) {
  const claiming = made.map((item) => ({ ...item, claimVersion: 0 }));
  const { creates } = await store.commit(batch({ creates: claiming }));
  return creates.map((one) => /** @type {any} */ (one).started);
}

/**
 * @param {Store} store
 * @param {Create[]} made
 */
async function claim(store, made) {
  const places = new Map(made.map(({ task }) => [task.destination, task.tenantId]));
  const claims = [...places].map(([destination, tenantId]) => {
    const rest = { lane: "first", limit: made.length, aheadMs: 0, aheadLimit: 0, version: 0 };
    return { tenantId, destination, ...rest };
  });
  await store.commit(batch({ claims: /** @type {any} */ (claims) }));
}

/**
 * @param {Store} store
 * @param {any[]} tasks
 * @param {keyof typeof REASONS} status
 */
async function end(store, tasks, status = "SUCCEEDED") {
  const settles = tasks.map((task) => ({
    tenantId: task.tenantId,
    taskId: task.taskId,
    ref: task.ref,
    claimEpoch: task.claimEpoch,
    claimedBy: task.claimedBy,
    status,
    reason: REASONS[status],
    lane: "retry",
    nextAttemptAt: T0 + 500,
    lastDelayMs: 500,
    abandonedCount: 0,
    attempt: ATTEMPT,
  }));
  await store.commit(batch({ settles: /** @type {any} */ (settles) }));
}

/**
 * With the driver of that checkout: two copies of SQLite in one process do not see each other's
 * locks.
 *
 * @param {string} root
 * @param {string} file
 */
function emptyLog(root, file) {
  const { DatabaseSync } = createRequire(join(root, "faces/service/"))("@photostructure/sqlite");
  const database = new DatabaseSync(file);
  database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
}

/**
 * @param {Partial<Batch>} parts
 * @returns {Batch}
 */
function batch(parts) {
  const empty = { destinations: [], creates: [], settles: [], cancels: [], retryNows: [] };
  return {
    now: T0,
    nodeId: "node-1",
    ...empty,
    claims: [],
    wakeUps: [],
    documents: [],
    expiresAt: null,
    ...parts,
  };
}

/**
 * @param {number} n
 * @param {object} fields
 * @returns {Create}
 */
function create(n, fields) {
  const time = (T0 + n).toString(16).padStart(12, "0");
  const tail = ((n * 7919) % 1_000_003).toString(16).padStart(12, "0");
  const task = {
    taskId: `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${tail}`,
    tenantId: "acme",
    idempotencyKey: null,
    destination: "https://example.com",
    targetUrl: "https://example.com/hook",
    method: "POST",
    headers: { "content-type": "application/json" },
    body: new TextEncoder().encode('{"order":1}'),
    bodyRef: null,
    policyId: "background",
    policyVersion: 0,
    idempotent: true,
    deadlineAt: null,
    createdAt: T0 + n,
    scheduledAt: T0,
    labels: {},
    callbackUrl: null,
    redrivenFrom: null,
    ...fields,
  };
  return { task, fingerprint: task.idempotencyKey === null ? null : "f", claimVersion: null };
}

const REASONS = { PENDING: null, SUCCEEDED: "succeeded", EXHAUSTED: "attempts" };

const ATTEMPT = {
  attemptNumber: 1,
  startedAt: T0,
  durationMs: 12,
  phases: null,
  outcome: "status",
  responseStatus: 200,
  errorClass: null,
  errorMessage: null,
  responseHeaders: null,
  responseBody: null,
  nextDelayMs: null,
  delaySource: null,
  waits: [],
};

for (const root of [otherCheckout(), ROOT]) {
  if (root === undefined) continue;
  console.log(`${root}: pages per task`);
  for (const [name, fields] of Object.entries(KINDS)) {
    for (const size of [1, 16]) {
      await inFolder(async (folder) =>
        console.log(await row(root, folder, { name, fields, size })),
      );
    }
  }
}
