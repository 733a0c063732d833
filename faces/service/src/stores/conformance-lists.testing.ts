/**
 * Conformance of lists: a list in pages, with any filter, limit and row budget, is the list that a
 * plain filter over all tasks gives, while other tasks are created and removed. A part of
 * `conformance.testing.ts`.
 */
import {
  asyncProperty,
  assert as check,
  constantFrom,
  integer,
  option,
  record,
  shuffledSubarray,
} from "fast-check";
import { describe, expect, it } from "vitest";
import type { Create, Settle } from "../model/batch.ts";
import type { Store } from "../model/store.ts";
import { ReadAbortedError } from "../model/store-errors.ts";
import type { RetryTask } from "../model/task.ts";
import type { Page, TaskFilter } from "../model/task-query.ts";
import { batch, claimOf, create, DESTINATION, settle, T0, TENANT } from "./store.testing.ts";

const DESTINATIONS = [DESTINATION, "b", "c"] as const;
const REGIONS = ["eu", "us"] as const;
const KEYS = ["k1", "k2"] as const;
const REASONS = ["attempts", "not-retryable", "budget"] as const;
const TASKS = 60;
const LONG_MS = 100_000;

const FIELDS = {
  status: constantFrom("PENDING", "IN_FLIGHT", "SUCCEEDED", "EXHAUSTED", "CANCELLED"),
  policyId: constantFrom("background", "other"),
  destination: constantFrom(...DESTINATIONS, "none"),
  label: record({ name: constantFrom("region", "team"), value: constantFrom(...REGIONS, "a") }),
  idempotencyKey: constantFrom(...KEYS, "none"),
  reason: constantFrom(...REASONS, "succeeded", "aborted"),
  lastStatus: constantFrom(200, 503),
  createdFrom: integer({ min: T0 - 5, max: T0 + 8 * LONG_MS }),
  createdTo: integer({ min: T0, max: T0 + 8 * LONG_MS }),
  finishedFrom: integer({ min: T0, max: T0 + 9 * LONG_MS }),
  finishedTo: integer({ min: T0, max: T0 + 9 * LONG_MS }),
  redriven: constantFrom(true, false),
} satisfies Record<keyof TaskFilter, unknown>;

/** Few fields: nearly no task matches a filter with many. */
const filters = record({
  all: record(FIELDS),
  fields: shuffledSubarray(Object.keys(FIELDS) as (keyof TaskFilter)[], { maxLength: 3 }),
}).map(({ all, fields }) => Object.fromEntries(fields.map((field) => [field, all[field]])));

export function listConformance(store: () => Store): void {
  describe("lists", () => {
    it("pages through any filter, with any row budget, like a plain filter over all", async () => {
      const all = await fill(store());
      const pages = record({
        limit: integer({ min: 1, max: 20 }),
        maxRows: integer({ min: 1, max: 70 }),
      });
      await check(
        asyncProperty(
          filters,
          pages,
          option(integer({ min: 0, max: 3 })),
          async (filter, page, at) => {
            const expected = all
              .filter((task) => matches(filter, task))
              .map(({ taskId }) => taskId);
            const listed = await listAll(store(), filter, page, at);
            expect(listed).toEqual(expected.sort().reverse());
            expect(await idsOf(store(), filter, page)).toEqual(expected);
          },
        ),
        { numRuns: 80 },
      );
    });

    it("compares the value of a label also where few tasks have the status", async () => {
      const inRegion = (region: string) => create({ labels: { region } });
      const canceled = inRegion("us");
      await store().commit(batch({ creates: [canceled, inRegion("eu"), inRegion("eu")] }));
      await store().commit(batch({ cancels: [canceled.task] }));
      const canceledIn = async (value: string) => {
        const filter: TaskFilter = { status: "CANCELLED", label: { name: "region", value } };
        return (await store().query.list(TENANT, filter, { limit: 9 })).tasks.length;
      };
      expect([await canceledIn("us"), await canceledIn("eu")]).toEqual([1, 0]);
    });

    it("gives an empty page and a cursor when the row budget is used up", async () => {
      const creates = Array.from({ length: 30 }, () => create());
      await store().commit(batch({ creates }));
      const page = await store().query.list(
        TENANT,
        { policyId: "other" },
        { limit: 9, maxRows: 7 },
      );
      expect(page.tasks).toEqual([]);
      expect(page.cursor).toBe(creates[23]?.task.taskId);
    });

    it("stops reading once its signal is aborted", async () => {
      const signal = AbortSignal.abort(new Error("gone"));
      const end: unknown = await store()
        .query.list(TENANT, {}, { limit: 1, signal })
        .catch((error: unknown) => error);
      // A wrapper may already have replaced the error by the reason.
      const reason = end instanceof ReadAbortedError ? end.cause : end;
      expect(reason).toBe(signal.reason);
    });

    it("knows the oldest task that has not ended", async () => {
      expect(await store().query.oldestOpen(TENANT)).toBeNull();
      const [first, second] = [create(), create({ createdAt: T0 + 1 })];
      await store().commit(batch({ creates: [second, first] }));
      expect(await store().query.oldestOpen(TENANT)).toBe(T0);
      await store().commit(batch({ cancels: [first.task] }));
      expect(await store().query.oldestOpen(TENANT)).toBe(T0 + 1);
      expect(await store().query.oldestOpen("zeta")).toBeNull();
    });
  });
}

/** Tasks of every kind and status, of two tenants; returns those of the tenant. */
async function fill(store: Store): Promise<readonly RetryTask[]> {
  const creates = Array.from({ length: TASKS }, (_, n) => variedTask(n));
  const { creates: made } = await store.commit(batch({ now: T0 + 8 * LONG_MS, creates }));
  const started = made.flatMap((one) => (one.kind === "created" && one.started) || []);
  const settles = started.flatMap((claim, n): Settle[] => {
    const status = (["PENDING", "SUCCEEDED", "EXHAUSTED", "EXHAUSTED"] as const)[n % 5];
    if (status === undefined) return [];
    const reason = status === "EXHAUSTED" ? REASONS[n % 3] : "succeeded";
    return [settle(claim, { status, reason: status === "PENDING" ? null : (reason ?? null) })];
  });
  await store.commit(batch({ now: T0 + 8 * LONG_MS, settles: settles.slice(0, 9) }));
  await store.commit(batch({ now: T0 + 9 * LONG_MS - 1, settles: settles.slice(9) }));
  const waiting = creates.filter((_, n) => n % 6 === 1).map(({ task }) => task);
  await store.commit(batch({ now: T0 + 9 * LONG_MS - 1, cancels: waiting }));
  const redrives = settles
    .filter(({ status, tenantId }) => status === "EXHAUSTED" && tenantId === TENANT)
    .slice(0, 4)
    .map(({ taskId }) => create({ redrivenFrom: taskId, createdAt: T0 + 8 * LONG_MS }));
  await store.commit(batch({ now: T0 + 9 * LONG_MS - 1, creates: redrives }));
  const tasks = await Promise.all(
    [...creates, ...redrives].map(({ task }) => store.query.get(task.tenantId, task.taskId)),
  );
  return tasks.filter((task) => task !== null).filter(({ tenantId }) => tenantId === TENANT);
}

function variedTask(n: number): Create {
  const key = n % 7 === 0 ? KEYS[n % 2] : undefined;
  return create(
    {
      tenantId: n % 10 === 9 ? "zeta" : TENANT,
      destination: DESTINATIONS[n % 3] ?? "b",
      policyId: n % 4 === 0 ? "other" : "background",
      createdAt: T0 + (n % 8) * LONG_MS + n,
      idempotencyKey: key ?? null,
      labels: n % 3 === 0 ? { region: REGIONS[Math.floor(n / 6) % 2] ?? "eu", team: "a" } : {},
    },
    // The first task of a key has a row in the key table, redriven ones have none.
    { fingerprint: n < 14 ? "f" : null, claimVersion: n % 2 === 0 ? 0 : null },
  );
}

/** Follows the cursors. After page number `at`, a task is created and claimed. */
async function listAll(
  store: Store,
  filter: TaskFilter,
  page: Page,
  at: number | null,
): Promise<readonly string[]> {
  const ids: string[] = [];
  let cursor: string | null | undefined;
  for (let pages = 0; cursor !== null; pages++) {
    if (pages > 2 * TASKS) throw new Error("the list does not end");
    const next = { ...page, ...(cursor !== undefined && { cursor }) };
    const found = await store.query.list(TENANT, filter, next);
    expect(found.tasks.length).toBeLessThanOrEqual(page.limit);
    ids.push(...found.tasks.map(({ taskId }) => taskId));
    cursor = found.cursor;
    if (pages === at) await addTask(store);
  }
  return ids;
}

async function idsOf(store: Store, filter: TaskFilter, page: Page): Promise<readonly string[]> {
  const ids: string[] = [];
  let cursor: string | null | undefined;
  while (cursor !== null) {
    const next = { ...page, ...(cursor !== undefined && { cursor }) };
    const found = await store.query.listIds(TENANT, filter, next);
    expect(found.taskIds.length).toBeLessThanOrEqual(page.limit);
    ids.push(...found.taskIds);
    cursor = found.cursor;
  }
  return ids;
}

/** For another tenant, and a newer one of this tenant, which is removed again. */
async function addTask(store: Store): Promise<void> {
  const later = { createdAt: T0 + 20 * LONG_MS };
  const fresh = create({ ...later, destination: "new" });
  await store.commit(batch({ creates: [create({ ...later, tenantId: "zeta" }), fresh] }));
  const { claims } = await store.commit(
    batch({ claims: [claimOf("first", { destination: "new" })] }),
  );
  const [claim] = claims[0]?.tasks ?? [];
  if (claim === undefined) throw new Error("the new task is not due");
  await store.commit(
    batch({ settles: [settle(claim, { status: "EXHAUSTED", reason: "poison" })] }),
  );
  await store.discard(TENANT, [claim.taskId]);
}

function matches(filter: TaskFilter, task: RetryTask): boolean {
  const { label, createdFrom, createdTo, finishedFrom, finishedTo, redriven, ...equal } = filter;
  const isWithin = (at: number | null, from = 0, to = Number.POSITIVE_INFINITY) =>
    at !== null && at >= from && at < to;
  const hasEnd = finishedFrom !== undefined || finishedTo !== undefined;
  return (
    Object.entries(equal).every(([field, value]) => task[field as keyof RetryTask] === value) &&
    (label === undefined || task.labels[label.name] === label.value) &&
    (redriven === undefined || redriven === (task.redrivenTo !== null)) &&
    isWithin(task.createdAt, createdFrom, createdTo) &&
    (!hasEnd || isWithin(task.finishedAt, finishedFrom, finishedTo))
  );
}
