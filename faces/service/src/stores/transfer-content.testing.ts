/**
 * Transfer content: fills a store with rows of every kind and tasks in every state, and reads everything
 * that can be moved.
 */
import { blankDestination } from "../model/destination-row.ts";
import { partitionOf } from "../model/partition.ts";
import type { Store } from "../model/store.ts";
import type { NewTask } from "../model/task.ts";
import {
  type StoreTransfer,
  TRANSFER_KINDS,
  type TransferKind,
  type TransferRows,
  transferOf,
} from "../model/transfer.ts";
import {
  attemptLog,
  batch,
  claimOf,
  create,
  newTask,
  settle,
  T0,
  TENANT,
} from "./store.testing.ts";

export type Moved = { [Kind in TransferKind]: readonly TransferRows[Kind][] };

export function transfer(store: Store): StoreTransfer {
  const found = transferOf(store);
  if (found === undefined) throw new Error("the store cannot be moved");
  return found;
}

/** All rows of a store, in pages of `limit`. */
export async function readAll(store: Store, limit = 250): Promise<Moved> {
  const entries = await Promise.all(
    TRANSFER_KINDS.map(async (kind) => [kind, await readKind(store, kind, limit)] as const),
  );
  return Object.fromEntries(entries) as unknown as Moved;
}

async function readKind(store: Store, kind: TransferKind, limit: number): Promise<unknown> {
  const rows: unknown[] = [];
  let cursor: string | null | undefined;
  while (cursor !== null) {
    const page = await transfer(store).read(kind, { limit, cursor });
    rows.push(...page.rows);
    cursor = page.cursor;
  }
  return rows;
}

/** Writes all rows, the kinds in their order. Returns how often each result came. */
export async function writeAll(
  store: Store,
  moved: Moved,
  method: "write" | "compare" = "write",
): Promise<Readonly<Record<string, number>>> {
  const counts: Record<string, number> = {};
  for (const kind of TRANSFER_KINDS) {
    for (const result of await transfer(store)[method](kind, moved[kind])) {
      counts[result] = (counts[result] ?? 0) + 1;
    }
  }
  return counts;
}

/** Puts the task into a partition. */
function inPartition(byte: string, fields: Partial<NewTask> = {}): NewTask {
  const task = newTask(fields);
  return { ...task, taskId: task.taskId.replace(/-80..-/u, `-80${byte}-`) };
}

/** The tasks of `fill`. */
export const NAMES = [
  "waiting",
  "retried",
  "suspect",
  "running",
  "canceling",
  "succeeded",
  "dead",
  "redriven",
  "canceled",
  "discarded",
  "other",
] as const;

export type Filled = Readonly<Record<(typeof NAMES)[number], NewTask>>;

const BINARY = Uint8Array.from({ length: 256 }, (_, byte) => byte);

function filledTasks(): Filled {
  const of = (name: string, byte: string, fields: Partial<NewTask> = {}) =>
    inPartition(byte, { destination: `https://${name}`, ...fields });
  return {
    waiting: of("waiting", "00", {
      idempotencyKey: "k-waiting",
      body: BINARY,
      labels: { team: "billing", ü: "ß" },
      policyId: "p",
      policyVersion: 3,
      scheduledAt: T0 + 1000,
      deadlineAt: T0 + 900_000,
      callbackUrl: "https://example.com/done",
    }),
    retried: of("retried", "21", {
      body: null,
      headers: {},
      policyId: "inline.x",
      policyVersion: 1,
    }),
    suspect: of("suspect", "3f", { body: new Uint8Array() }),
    running: of("running", "7e", { idempotencyKey: "k-running", headers: { a: "\u0000\u0001" } }),
    canceling: of("canceling", "7f", { idempotent: false }),
    succeeded: of("succeeded", "80", { idempotencyKey: "k-succeeded" }),
    dead: of("dead", "a1", { idempotencyKey: "k-dead" }),
    redriven: of("redriven", "a1"),
    canceled: of("canceled", "ff", { idempotencyKey: "k-canceled" }),
    discarded: of("discarded", "c3", { idempotencyKey: "k-discarded" }),
    other: of("other", "05", { tenantId: "zeta", idempotencyKey: "k-waiting" }),
  };
}

/** Claims the only task of its destination. */
export async function claimOnly(store: Store, task: NewTask, fields: { now?: number } = {}) {
  const { tenantId, taskId, destination } = task;
  const partitions = [partitionOf(taskId, store.partitions)];
  const { now = T0 } = fields;
  for (const lane of ["first", "retry", "suspect"] as const) {
    const claims = [claimOf(lane, { tenantId, destination, partitions })];
    const result = await store.commit(batch({ now, claims }));
    const [claim] = result.claims[0]?.tasks ?? [];
    if (claim !== undefined) return claim;
  }
  throw new Error(`${destination} has no task that is due`);
}

/** Fills an empty store. */
export async function fill(store: Store): Promise<Filled> {
  await fillTables(store);
  const tasks = filledTasks();
  const { redriven, ...first } = tasks;
  const creates = Object.values(first).map((task) => ({
    ...create(),
    task,
    fingerprint: task.idempotencyKey && `f-${task.idempotencyKey}`,
  }));
  await store.commit(batch({ creates }));
  await settleTasks(store, tasks);
  const redrive = { ...redriven, redrivenFrom: tasks.dead.taskId, idempotencyKey: "k-dead" };
  await store.commit(batch({ creates: [{ ...create(), task: redrive }] }));
  await store.discard(TENANT, [tasks.discarded.taskId]);
  return { ...tasks, redriven: redrive };
}

async function settleTasks(store: Store, tasks: Filled): Promise<void> {
  const run = async (task: NewTask, fields: Parameters<typeof settle>[1], now = T0) => {
    const claim = await claimOnly(store, task, { now });
    await store.commit(batch({ now: now + 7, settles: [settle(claim, fields)] }));
  };
  const end = { reason: null, lane: "first" } as const;
  await run(tasks.retried, {});
  await run(tasks.retried, { nextAttemptAt: T0 + 9000 }, T0 + 600);
  await run(tasks.suspect, {
    lane: "suspect",
    abandonedCount: 2,
    attempt: attemptLog({ phases: null, responseHeaders: null, responseBody: null }),
  });
  await run(tasks.succeeded, { ...end, status: "SUCCEEDED", reason: "succeeded" });
  await run(tasks.dead, { ...end, status: "EXHAUSTED", reason: "attempts" });
  await run(tasks.discarded, { ...end, status: "EXHAUSTED", reason: "not-retryable" });
  await claimOnly(store, tasks.running);
  await claimOnly(store, tasks.canceling);
  await store.commit(batch({ now: T0 + 8, cancels: [tasks.canceling, tasks.canceled] }));
}

async function fillTables(store: Store): Promise<void> {
  const policy = { tenantId: TENANT, policyId: "p", version: 1, document: "{}", createdAt: T0 };
  await store.addPolicy(policy);
  await store.addPolicy({ ...policy, version: 2, document: '{"a":1}' });
  await store.removePolicy(TENANT, "p", T0 + 3);
  await store.addPolicy({ ...policy, version: 3 });
  await store.addPolicy({ ...policy, policyId: "inline.x" });
  await store.addPolicy({ ...policy, tenantId: "zeta" });
  const row = { ...blankDestination(TENANT, "https://paused"), version: 1, pausedAt: T0 };
  const open = { ...row, breakerState: "OPEN", openUntil: T0 + 5, openCount: 2 } as const;
  const second = { ...open, version: 2, document: '{"rate":{"perSecond":5}}', gateUntil: T0 + 9 };
  await store.commit(batch({ destinations: [{ row }, { row: second }] }));
  const document = { kind: "redrive", tenantId: TENANT, id: "r1", version: 1, text: '{"n":1}' };
  await store.documents.put(document);
  await store.documents.put({ ...document, version: 2, text: '{"n":"\\u0000ü"}' });
  await store.documents.put({ ...document, kind: "guards", tenantId: "zeta" });
}
