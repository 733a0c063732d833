/**
 * Tests that a store of every released schema is upgraded with all of its data. The fixtures are
 * dumps of stores that those versions wrote.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, describe, expect, it } from "vitest";
import type { Store } from "../../faces/service/src/model/store.ts";
import { SCHEMA_VERSION } from "../../faces/service/src/stores/sqlite/file/migrations.ts";
import { firstColumn } from "../../faces/service/src/stores/sqlite/file/query.ts";
import type { Database } from "../../faces/service/src/stores/sqlite/file/sql.ts";
import { sqliteStore } from "../../faces/service/src/stores/sqlite/sqlite-store.ts";
import { batch, newTask } from "../../faces/service/src/stores/store.testing.ts";

const FIXTURES = fileURLToPath(new URL(".", import.meta.url));
const NAMES = readdirSync(FIXTURES).filter((name) => name.endsWith(".sql"));
const STATUSES = ["PENDING", "IN_FLIGHT", "SUCCEEDED", "EXHAUSTED", "CANCELLED"];

const folder = mkdtempSync(join(tmpdir(), "redrive-upgrade-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
function load(name: string): string {
  const file = join(folder, `${++files}.db`);
  const database = new DatabaseSync(file);
  database.exec(readFileSync(join(FIXTURES, name), "utf8"));
  database.close();
  return file;
}

function withDatabase<T>(file: string, work: (database: Database) => T): T {
  const database = new DatabaseSync(file);
  try {
    return work(database);
  } finally {
    database.close();
  }
}

/** All rows of a query, read without the code under test. */
function rowsOf(file: string, table: string, columns: readonly string[]): Row[] {
  const pairs = columns.map((column) => `'${column}', ${column}`).join(", ");
  return withDatabase(file, (database) =>
    firstColumn(database, `SELECT json_object(${pairs}) FROM ${table}`).map(
      (text) => JSON.parse(String(text)) as Row,
    ),
  );
}

type Row = Readonly<Record<string, string | number | null>>;

const schemaOf = (file: string) =>
  withDatabase(file, (database) => firstColumn(database, "SELECT * FROM pragma_user_version")[0]);

const TASK_COLUMNS = [
  ..."ref tenant_id task_id status attempt_number next_attempt_at".split(" "),
  ..."target_url method headers labels policy_id policy_version idempotency_key".split(" "),
  "hex(body)",
].map((name) => (name === "ref" ? "t.ref" : name));

async function expectTasks(store: Store, tasks: readonly Row[]): Promise<void> {
  for (const row of tasks) {
    const found = await store.query.get(String(row["tenant_id"]), String(row["task_id"]));
    expect(found).toMatchObject({
      status: STATUSES[Number(row["status"])],
      attemptNumber: row["attempt_number"],
      nextAttemptAt: row["next_attempt_at"],
      targetUrl: row["target_url"],
      method: row["method"],
      headers: JSON.parse(String(row["headers"])),
      labels: JSON.parse(String(row["labels"])),
      policyId: row["policy_id"],
      policyVersion: row["policy_version"],
      idempotencyKey: row["idempotency_key"],
    });
    const body = Buffer.from(found?.body ?? []).toString("hex");
    expect(body).toBe(String(row["hex(body)"] ?? "").toLowerCase());
  }
}

async function expectAttempts(store: Store, tasks: readonly Row[], attempts: readonly Row[]) {
  for (const { "t.ref": ref, tenant_id: tenantId, task_id: taskId } of tasks) {
    const page = await store.query.attempts(String(tenantId), String(taskId), { limit: 10 });
    const found = page.attempts.map(({ outcome, responseBody }) => [
      outcome,
      Buffer.from(responseBody ?? [])
        .toString("hex")
        .toUpperCase(),
    ]);
    const stored = attempts.filter((row) => row["ref"] === ref);
    expect(found).toEqual(stored.map((row) => [row["outcome"], row["hex(response_body)"]]));
  }
}

/** A destination that nobody configured or paused has no row for callers. */
async function expectDestinations(store: Store, destinations: readonly Row[]): Promise<void> {
  const configured = destinations.filter(({ document }) => document !== null);
  expect(configured.map(({ name }) => name)).toEqual(["paused"]);
  for (const { tenant_id: tenantId, name, paused_at: pausedAt, document } of configured) {
    const found = await store.getDestination(String(tenantId), String(name));
    expect(found).toMatchObject({ pausedAt, document });
  }
}

async function expectPolicies(store: Store, policies: readonly Row[]): Promise<void> {
  for (const { tenant_id: tenantId, policy_id: policyId, version, document } of policies) {
    const found = await store.getPolicy(String(tenantId), String(policyId), Number(version));
    expect(found).toMatchObject({ document });
  }
}

/** A key that is in use leads to its task, not to a new one. */
async function expectKeys(store: Store, keys: readonly Row[]): Promise<void> {
  for (const { tenant_id: tenantId, idempotency_key: key, task_id: taskId } of keys) {
    const task = newTask({ tenantId: String(tenantId), idempotencyKey: String(key) });
    const creates = [{ task, fingerprint: "another", claimVersion: null }];
    const result = await store.commit(batch({ now: 0, creates }));
    expect(JSON.stringify(result.creates)).toContain(String(taskId));
  }
}

describe.each(NAMES)("a store of %s", (name) => {
  it("is upgraded with all of its data", async () => {
    const file = load(name);
    const tasks = rowsOf(file, "tasks t JOIN payloads p ON p.ref = t.ref", TASK_COLUMNS);
    const attempts = rowsOf(file, "attempts", ["ref", "outcome", "hex(response_body)"]);
    const places = rowsOf(file, "destinations", ["tenant_id", "name", "paused_at", "document"]);
    const policies = rowsOf(file, "policies", ["tenant_id", "policy_id", "version", "document"]);
    const keys = rowsOf(file, "idempotency_keys", ["tenant_id", "idempotency_key", "task_id"]);
    const counts = [tasks, attempts, places, policies, keys].map(({ length }) => length);
    expect(counts).toEqual([7, 4, 3, 4, 7]);

    const store = sqliteStore(file);
    await expectTasks(store, tasks);
    await expectAttempts(store, tasks, attempts);
    await expectDestinations(store, places);
    await expectPolicies(store, policies);
    await expectKeys(store, keys);
    await store.close();
    expect(schemaOf(file)).toBe(SCHEMA_VERSION);
    expect(existsSync(`${file}.ledger`)).toBe(true);
  });
});

describe("documents", () => {
  it.each([
    ["schema-1.sql", "notes"],
    ["schema-2.sql", "documents"],
    ["schema-6.sql", "documents"],
  ])("of %s are kept", async (name, table) => {
    const file = load(name);
    const documents = rowsOf(file, table, ["kind", "tenant_id", "id", "version", "text"]);
    expect(documents.map((row) => row["kind"])).toEqual(["guards", "redrive", "retry-budget"]);
    const store = sqliteStore(file);
    for (const { kind, tenant_id: tenantId, id, version, text } of documents) {
      const found = await store.documents.get(String(kind), String(tenantId), String(id));
      expect(found).toEqual({ kind, tenantId, id, version, text });
    }
    await store.close();
  });
});

describe("an upgrade", () => {
  it("keeps a copy of the old schema, which is still readable", async () => {
    const file = load("schema-1.sql");
    await sqliteStore(file).close();
    expect(schemaOf(`${file}.schema-1`)).toBe(1);
    expect(rowsOf(`${file}.schema-1`, "tasks", ["ref"])).toHaveLength(7);
  });

  it("that fails leaves the file at the number before, and the next start continues", async () => {
    const file = load("schema-1.sql");
    withDatabase(file, (database) => database.exec("CREATE TABLE documents (x)"));
    expect(() => sqliteStore(file)).toThrow(/there is already another table.*documents/u);
    expect(schemaOf(file)).toBe(1);
    expect(rowsOf(file, "notes", ["kind"])).toHaveLength(3);
    withDatabase(file, (database) => database.exec("DROP TABLE documents"));
    const store = sqliteStore(file);
    expect((await store.documents.list("redrive", { limit: 10 })).documents).toHaveLength(1);
    await store.close();
    expect(schemaOf(file)).toBe(SCHEMA_VERSION);
  });

  it("is refused for a newer file, with both numbers", () => {
    const file = load("schema-2.sql");
    const newer = SCHEMA_VERSION + 7;
    withDatabase(file, (database) => database.exec(`PRAGMA user_version = ${newer}`));
    expect(() => sqliteStore(file)).toThrow(
      `its schema is ${newer}, this version supports up to ${SCHEMA_VERSION}`,
    );
    expect(schemaOf(file)).toBe(newer);
  });
});
