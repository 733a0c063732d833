/**
 * Churn: creates, claims, retries, ends and removes tasks on a PostgreSQL store, with days that pass in
 * seconds, and measures the claims.
 */
import type { Store } from "../../model/store.ts";
import { batch, claimOf, create, nextTaskId, partitionsOf, settle, T0 } from "../store.testing.ts";

export const DAY_MS = 86_400_000;

/** Tasks per commit, and per claim. */
const BATCH = 50;
/** One task of ten is retried once. */
const RETRY_EVERY = 10;
/** Retention: ended tasks are removed after this time. */
const KEPT_MS = 2 * DAY_MS;
const SWEEP_LIMIT = 1000;

export interface Churned {
  /** How long each claim took, in ms. */
  readonly claimMs: readonly number[];
  readonly ended: number;
}

/** One day: `rounds` times, tasks are created, claimed and ended, some after a retry. */
export async function churnDay(store: Store, day: number, rounds: number): Promise<Churned> {
  const claimMs: number[] = [];
  let ended = 0;
  for (let round = 0; round < rounds; round++) {
    const now = T0 + day * DAY_MS + Math.floor((round * DAY_MS) / rounds);
    const creates = Array.from({ length: BATCH }, (_, n) => {
      const task = { taskId: taskIdIn(now, n), createdAt: now, scheduledAt: now };
      return create({ ...task, idempotencyKey: `${now}-${n}` }, { fingerprint: "f" });
    });
    await store.commit(batch({ now, creates }));
    for (const lane of ["first", "retry"] as const) {
      const startMs = performance.now();
      const claim = claimOf(lane, { partitions: partitionsOf(store), limit: BATCH });
      const { claims } = await store.commit(batch({ now, claims: [claim] }));
      claimMs.push(performance.now() - startMs);
      const tasks = claims[0]?.tasks ?? [];
      const settles = tasks.map((task, n) =>
        lane === "first" && n % RETRY_EVERY === 0
          ? settle(task, { nextAttemptAt: now })
          : settle(task, { status: "SUCCEEDED" }),
      );
      ended += settles.filter(({ status }) => status === "SUCCEEDED").length;
      await store.commit(batch({ now, settles }));
    }
    await sweep(store, now);
  }
  return { claimMs, ended };
}

async function sweep(store: Store, now: number): Promise<void> {
  const retention = { now, endedBefore: now - KEPT_MS, deadBefore: now - KEPT_MS };
  await store.sweep({ ...retention, limit: SWEEP_LIMIT });
}

/** Tasks are spread over the partitions, as those of a real fleet. */
function taskIdIn(now: number, n: number): string {
  const byte = (n % 256).toString(16).padStart(2, "0");
  return nextTaskId(now).replace(/-8000-/u, `-80${byte}-`);
}

/** The value that this share of the values does not exceed. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}
