/** Tests that a file of an earlier schema is migrated, by one synthetic step: nothing was released yet. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, describe, expect, it } from "vitest";
import { batch, create } from "../../store.testing.ts";
import { sqliteStore } from "../sqlite-store.ts";
import { prepare } from "./open.ts";
import { MIGRATIONS, SCHEMA_VERSION } from "./schema.ts";
import { type Database, firstColumn } from "./sql.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-schema-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const NEXT = [
  ...MIGRATIONS,
  `ALTER TABLE tasks ADD COLUMN color TEXT; CREATE TABLE colors (name TEXT) STRICT;
   INSERT INTO colors SELECT task_id FROM tasks;`,
];

let files = 0;
/** A file of this version with one task. */
async function oldFile(): Promise<{ file: string; taskId: string }> {
  const file = join(folder, `${++files}.db`);
  const store = sqliteStore(file);
  const one = create();
  await store.commit(batch({ creates: [one] }));
  await store.close();
  return { file, taskId: one.task.taskId };
}

function withDatabase<T>(file: string, work: (database: Database) => T): T {
  const database = new DatabaseSync(file);
  try {
    return work(database);
  } finally {
    database.close();
  }
}

const columnOf = (file: string, sql: string) =>
  withDatabase(file, (database) => firstColumn(database, sql));
const versionOf = (file: string) => columnOf(file, "SELECT * FROM pragma_user_version")[0];

describe("a file of the schema before", () => {
  it("is migrated with its rows, and a copy of the old file is kept", async () => {
    const { file, taskId } = await oldFile();
    withDatabase(file, (database) => prepare(database, file, NEXT));
    expect(versionOf(file)).toBe(SCHEMA_VERSION + 1);
    expect(columnOf(file, "SELECT name FROM colors")).toEqual([taskId]);
    expect(versionOf(`${file}.schema-${SCHEMA_VERSION}`)).toBe(SCHEMA_VERSION);
    const store = sqliteStore(`${file}.schema-${SCHEMA_VERSION}`);
    expect((await store.query.get(create().task.tenantId, taskId))?.status).toBe("PENDING");
    await store.close();
  });

  it("stays at its number if a step fails, and the next start continues", async () => {
    const { file, taskId } = await oldFile();
    withDatabase(file, (database) => database.exec("CREATE TABLE colors (x)"));
    const migrateFile = () => withDatabase(file, (database) => prepare(database, file, NEXT));
    expect(migrateFile).toThrow(/colors/u);
    expect(versionOf(file)).toBe(SCHEMA_VERSION);
    expect(columnOf(file, "SELECT task_id FROM tasks")).toEqual([taskId]);
    withDatabase(file, (database) => database.exec("DROP TABLE colors"));
    migrateFile();
    expect(versionOf(file)).toBe(SCHEMA_VERSION + 1);
    expect(columnOf(file, "SELECT name FROM colors")).toEqual([taskId]);
  });

  it("is not migrated again by this version, and its copy stays as it is", async () => {
    const { file } = await oldFile();
    await sqliteStore(file).close();
    expect(existsSync(`${file}.schema-${SCHEMA_VERSION}`)).toBe(false);
  });
});
