/**
 * Tests of lists on SQLite: every statement examines a bounded number of rows of an index, a hostile
 * tenant delays another by one statement, and lists do not keep the write-ahead log from restarting.
 */
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, describe, expect, it } from "vitest";
import type { TaskFilter } from "../../model/task-query.ts";
import { batch, claimFirst, create, settle, T0, TENANT } from "../store.testing.ts";
import { MAX_LOG_PAGES } from "./file/checkpointer.ts";
import { ReadQueue } from "./read-queue.ts";
import { createReader, type Reader } from "./reader.ts";
import type { Cell } from "./rows.ts";
import { sqliteStore } from "./sqlite-store.ts";
import { listPage, SLICE_ROWS } from "./task-list.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-lists-"));
let files = 0;
const nextFile = () => join(folder, `${++files}.db`);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const MAX_LOG_BYTES = MAX_LOG_PAGES * 4096;

/** Waiting tasks, made by one statement. */
function addTasks(file: string, tenantId: string, count: number): void {
  const database = new DatabaseSync(file);
  database.exec(`
    BEGIN;
    INSERT OR IGNORE INTO destinations VALUES (NULL, '${tenantId}', 'd', 0, NULL, NULL, 0, 'CLOSED', 0, 0);
    CREATE TEMP TABLE n AS WITH RECURSIVE n (i) AS
      (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < ${count}) SELECT i FROM n;
    INSERT INTO tasks (tenant_id, task_id, destination_id, status, lane, next_attempt_at,
      attempt_number, claim_epoch, last_delay_ms, abandoned_count)
      SELECT '${tenantId}', format('01a3185c-4fff-7000-8000-%012d', i),
        (SELECT destination_id FROM destinations WHERE tenant_id = '${tenantId}'), 0, 0, 0, 0, 0, 0, 0
      FROM n;
    INSERT INTO payloads (ref, created_at, scheduled_at, target_url, method, headers, policy_id,
      policy_version, idempotent, labels)
      SELECT ref, ${T0}, 0, 'http://d', 'POST', '{}', 'p', 1, 1, '{}' FROM tasks
      WHERE tenant_id = '${tenantId}';
    COMMIT; DROP TABLE n`);
  database.close();
}

describe("a list", () => {
  const FILTERS: readonly TaskFilter[] = [
    {},
    { status: "PENDING" },
    { status: "IN_FLIGHT", destination: "d" },
    { status: "SUCCEEDED", policyId: "x" },
    { status: "CANCELLED" },
    { status: "EXHAUSTED" },
    { status: "EXHAUSTED", reason: "attempts", lastStatus: 503 },
    { status: "EXHAUSTED", destination: "d", finishedTo: T0 },
    { destination: "d" },
    { label: { name: "a", value: "b" } },
    { label: { name: "a", value: "b" }, status: "EXHAUSTED" },
    { idempotencyKey: "k" },
    { createdFrom: T0, createdTo: T0 + 1 },
  ];

  it.each(FILTERS)("%o seeks in indexes and never scans a table", async (filter) => {
    const file = nextFile();
    await sqliteStore(file).close();
    const database = new DatabaseSync(file);
    const plans: string[] = [];
    const read = async (sql: string, params: readonly Cell[]) => {
      const plan = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...params) as object[];
      plans.push(...plan.map((row) => String((row as { readonly detail: string }).detail)));
      const statement = database.prepare(sql);
      statement.setReturnArrays(true);
      return statement.all(...params) as unknown as Cell[][];
    };
    await listPage(read, TENANT, filter, { limit: 50 });
    const tables = plans.filter((line) =>
      /(SCAN|SEARCH) (tasks|task_terms|payloads|t|p)\b/.test(line),
    );
    expect(tables.length).toBeGreaterThan(1);
    expect(tables.filter((line) => !line.startsWith("SEARCH"))).toEqual([]);
    const ofSource = tables.filter((line) => / (tasks|task_terms) /.test(line));
    expect(ofSource.filter((line) => !/USING (COVERING INDEX|PRIMARY KEY)/.test(line))).toEqual([]);
    database.close();
  });

  it("of a hostile tenant delays another by at most one statement", async () => {
    const file = nextFile();
    await sqliteStore(file).close();
    addTasks(file, "hostile", 20 * SLICE_ROWS);
    addTasks(file, "small", 10);
    const reader = createReader(file);
    let run = 0;
    const counting: Reader = {
      ...reader,
      all(sql, params) {
        run++;
        return reader.all(sql, params);
      },
    };
    const queue = new ReadQueue(counting);
    const list = (tenantId: string, filter: TaskFilter) =>
      queue.page(tenantId, undefined, (read) => listPage(read, tenantId, filter, { limit: 50 }));
    const scans = Array.from({ length: 5 }, () => list("hostile", { policyId: "none" }));
    while (run === 0) await Promise.resolve();
    const before = run;
    const { tasks } = await list("small", {});
    expect(tasks).toHaveLength(10);
    // Its own, and the one that follows it.
    expect(run - before).toBeLessThanOrEqual(2);
    const pages = await Promise.all(scans);
    // 20 slices and the short first one for each scan.
    expect(run).toBeGreaterThan(5 * 20);
    expect(pages.map(({ tasks: found, cursor }) => [found.length, cursor !== null])).toEqual(
      scans.map(() => [0, true]),
    );
    await queue.close();
  });

  it("leaves the log short while a writer commits", async () => {
    const file = nextFile();
    await sqliteStore(file).close();
    addTasks(file, TENANT, 20 * SLICE_ROWS);
    const store = sqliteStore(file);
    const body = new Uint8Array(30_000);
    const writing = { isOver: false };
    const lists = Array.from({ length: 3 }, async () => {
      while (!writing.isOver) await store.query.list(TENANT, { policyId: "none" }, { limit: 1 });
    });
    // 120 MB in all; a list that held the log open would keep all of it there.
    let largest = 0;
    for (let n = 0; n < 160; n++) {
      await store.commit(batch({ creates: Array.from({ length: 25 }, () => create({ body })) }));
      await setImmediate();
      largest = Math.max(largest, statSync(`${file}-wal`).size);
    }
    writing.isOver = true;
    await Promise.all(lists);
    await store.close();
    expect(largest).toBeLessThan(2 * MAX_LOG_BYTES);
  }, 60_000);
});

describe("the write-ahead log", () => {
  it("shrinks after a foreign read has kept it from restarting", async () => {
    const file = nextFile();
    const store = sqliteStore(file);
    const logBytes = () => statSync(`${file}-wal`).size;
    const write = async () => {
      const body = new Uint8Array(100_000);
      await store.commit(batch({ creates: Array.from({ length: 40 }, () => create({ body })) }));
      await setImmediate();
    };
    await write();
    const foreign = new DatabaseSync(file, { readOnly: true });
    foreign.exec("BEGIN; SELECT count(*) FROM tasks");
    while (logBytes() <= MAX_LOG_BYTES) await write();
    foreign.exec("COMMIT");
    foreign.close();
    while (logBytes() > MAX_LOG_BYTES) await write();
    expect(logBytes()).toBe(MAX_LOG_BYTES);
    await store.close();
  }, 30_000);
});

describe("the index of labels and keys", () => {
  const terms = (file: string) => {
    const database = new DatabaseSync(file);
    const rows = database.prepare("SELECT name, value FROM task_terms ORDER BY 1, 2").all();
    database.close();
    return rows.map((row) => Object.values(row as object).join("="));
  };
  const labeled = (fields = {}) => create({ labels: { team: "a", env: "b" }, ...fields });

  it("has no row of a task without labels, or of the current task of a key", async () => {
    const file = nextFile();
    const store = sqliteStore(file);
    const keyed = create({ idempotencyKey: "k" }, { fingerprint: "f" });
    const redriven = create({ idempotencyKey: "k" });
    await store.commit(batch({ creates: [create(), keyed, redriven, labeled()] }));
    expect(terms(file)).toEqual(["=k", "env=b", "team=a"]);
    await store.close();
  });

  it("loses the rows of a task with the task, and gets those of a key that expires", async () => {
    const file = nextFile();
    const store = sqliteStore(file);
    const keyed = (key: string) => labeled({ idempotencyKey: key });
    await store.commit(
      batch({ creates: ["k", "l"].map((key) => ({ ...keyed(key), fingerprint: "f" })) }),
    );
    const [one, two] = await claimFirst(store, 2);
    await store.commit(
      batch({
        settles: [
          settle(one!, { status: "EXHAUSTED", reason: "attempts" }),
          settle(two!, { status: "SUCCEEDED", reason: "succeeded" }),
        ],
      }),
    );
    const kept = { endedBefore: 0, deadBefore: 0, limit: 100 };
    while ((await store.sweep({ now: T0 + 86_400_000, ...kept })) > 0);
    expect(terms(file)).toEqual(["=k", "=l", "env=b", "env=b", "team=a", "team=a"]);
    const byKey = await store.query.list(TENANT, { idempotencyKey: "l" }, { limit: 9 });
    expect(byKey.tasks.map(({ taskId }) => taskId)).toEqual([two?.taskId]);
    await store.discard(TENANT, [one?.taskId ?? ""]);
    await store.sweep({ now: T0 + 86_400_000, endedBefore: T0 + 1, deadBefore: 0, limit: 100 });
    expect(terms(file)).toEqual([]);
    await store.close();
  });
});
