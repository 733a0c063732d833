/** Tests that a refused file is described, and accepted only when told to. */
import { copyFileSync, existsSync, mkdtempSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { batch, create, T0, TENANT } from "../../store.testing.ts";
import { sqliteStore } from "../sqlite-store.ts";
import { acceptSqliteLoss, inspectSqliteFile } from "./repair-file.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-repair-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;

async function commit(file: string, commits: number): Promise<void> {
  const store = sqliteStore(file);
  for (let n = 0; n < commits; n++) await store.commit(batch({ creates: [create()] }));
  await store.close();
}

/** A store of which three commits are lost. */
async function damagedFile(): Promise<string> {
  const file = join(folder, `${++files}`, "redrive.db");
  await commit(file, 2);
  copyFileSync(file, `${file}.copy`);
  await commit(file, 1);
  copyFileSync(`${file}.copy`, file);
  return file;
}

describe("a file that lacks commits", () => {
  it("is described, and not changed", async () => {
    const file = await damagedFile();
    const report = inspectSqliteFile(file);
    expect(report).toMatchObject({ tasks: 2, newestTaskAt: T0, damage: [] });
    expect(report.loss).toMatch(/3 of 7 commits are missing/u);
    expect([report.commits, report.ledgerCommits]).toEqual([4, 7]);
    expect(report.ledgerWrittenAt).toBeGreaterThan(0);
    expect(() => sqliteStore(file)).toThrow(/commits are missing/u);
  });

  it("is accepted as it is when told to, and a copy is kept", async () => {
    const file = await damagedFile();
    const { kept, report } = acceptSqliteLoss(file);
    expect(report.tasks).toBe(2);
    expect(kept).toBe(`${file}.damaged-1`);
    expect(existsSync(`${kept}.ledger`)).toBe(true);
    const store = sqliteStore(file);
    const { tasks } = await store.query.list(TENANT, {}, { limit: 10 });
    expect(tasks).toHaveLength(2);
    await store.close();
    expect(() => acceptSqliteLoss(file)).toThrow(/there is no loss to accept/u);
    expect(inspectSqliteFile(file).loss).toBe(null);
  });

  it("and is empty starts anew once that is accepted", async () => {
    const file = await damagedFile();
    truncateSync(file);
    expect(inspectSqliteFile(file)).toMatchObject({ loss: "the database is empty or missing" });
    acceptSqliteLoss(file);
    await commit(file, 1);
    expect(inspectSqliteFile(file)).toMatchObject({ tasks: 1, loss: null });
  });

  it("cannot be accepted while it is in use, or if its pages are damaged", async () => {
    const file = await damagedFile();
    acceptSqliteLoss(file);
    const store = sqliteStore(file);
    expect(() => inspectSqliteFile(file)).toThrow(/is in use/u);
    await store.close();
    truncateSync(file, 20_000);
    expect(inspectSqliteFile(file).damage).not.toEqual([]);
    expect(() => acceptSqliteLoss(file)).toThrow(/is damaged and cannot be accepted/u);
    expect(() => inspectSqliteFile(`${file}.no`)).toThrow(/there is no store/u);
  });
});
