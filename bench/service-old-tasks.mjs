/**
 * Old tasks: fills a store with tasks that ended three days ago, so that retention runs while a
 * benchmark measures, and times each slice of the removal.
 */
import { randomUUID } from "node:crypto";
import { BODY } from "./service-parts.mjs";

const RETENTION_MS = 3 * 86_400_000;
const TENANT = "default";
const DESTINATION = "http://old.example";
const CHUNK = 250;

/** @typedef {import("@redrive/service").Store} Store */

const EMPTY = {
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

/** @param {number} at @param {string | null} idempotencyKey */
const newTask = (at, idempotencyKey) => ({
  taskId: randomUUID(),
  tenantId: TENANT,
  idempotencyKey,
  destination: DESTINATION,
  targetUrl: `${DESTINATION}/`,
  method: "POST",
  headers: {},
  body: BODY,
  bodyRef: null,
  policyId: "background",
  policyVersion: 0,
  idempotent: true,
  deadlineAt: null,
  createdAt: at,
  scheduledAt: at,
  labels: {},
  callbackUrl: null,
  redrivenFrom: null,
});

/** @param {number} at */
const attempt = (at) => ({
  attemptNumber: 1,
  startedAt: at,
  durationMs: 3,
  phases: { dnsMs: null, connectMs: null, tlsMs: null, firstByteMs: 1 },
  outcome: /** @type {const} */ ("status"),
  responseStatus: 200,
  errorClass: null,
  errorMessage: null,
  responseHeaders: {},
  responseBody: new Uint8Array(2),
  nextDelayMs: null,
  delaySource: null,
  waits: [],
});

/**
 * Tasks that succeeded three days before they are due for removal, evenly from `firstAt` on.
 * @param {Store} store
 * @param {number} firstAt
 * @param {number} perSecond
 * @param {number} seconds
 * @param {(number: number) => string | null} keyOf
 */
export async function addOldTasks(store, firstAt, perSecond, seconds, keyOf = () => null) {
  const total = Math.floor(perSecond * seconds);
  for (let made = 0; made < total; made += CHUNK) {
    const at = Math.floor(firstAt - RETENTION_MS + (made * 1000) / perSecond);
    const author = { now: at, nodeId: "old", ...EMPTY };
    const creates = Array.from({ length: Math.min(CHUNK, total - made) }, (_, index) => {
      const task = newTask(at, keyOf(made + index));
      const fingerprint = task.idempotencyKey === null ? null : "f";
      return { task, fingerprint, claimVersion: 0 };
    });
    const created = await store.commit({ ...author, creates });
    const settles = created.creates.map((result) => settleOf(result, at));
    await store.commit({ ...author, settles });
  }
}

/** @param {any} result of a create that was also a claim @param {number} at */
function settleOf({ started }, at) {
  return {
    tenantId: TENANT,
    taskId: started.taskId,
    ref: started.ref,
    claimEpoch: started.claimEpoch,
    claimedBy: started.claimedBy,
    status: /** @type {const} */ ("SUCCEEDED"),
    reason: /** @type {const} */ ("succeeded"),
    lane: /** @type {const} */ ("first"),
    nextAttemptAt: at,
    lastDelayMs: 0,
    abandonedCount: 0,
    attempt: attempt(at),
  };
}

/**
 * The same store, and how long each slice of the removal blocked the event loop.
 * @param {Store} store
 */
export function timedSweeps(store) {
  /** @type {number[]} */
  const slicesMs = [];
  let removed = 0;
  /** @type {Store} */
  const timed = {
    ...store,
    sweep(retention) {
      const startMs = performance.now();
      const sweeping = store.sweep(retention);
      const ms = performance.now() - startMs;
      return sweeping.then((count) => {
        if (count > 0) slicesMs.push(ms);
        removed += count;
        return count;
      });
    },
  };
  /** What was removed since the last call. */
  const take = () => {
    const taken = { slicesMs: slicesMs.splice(0), removed };
    removed = 0;
    return taken;
  };
  return { timed, take };
}
