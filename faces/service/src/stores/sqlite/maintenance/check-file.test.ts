/** Tests that the whole file of a store is checked, and that damage is described. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { sqliteStore } from "../sqlite-store.ts";
import { checkSqliteFile } from "./check-file.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-check-"));
afterAll(() => rmSync(folder, { recursive: true }));
const file = join(folder, "store.db");

test("an intact file has no problems; one in use and a damaged one throw", async () => {
  const store = sqliteStore(file);
  expect(() => checkSqliteFile(file)).toThrow(/is in use by another process/u);
  await store.close();
  expect(checkSqliteFile(file)).toEqual([]);
  const bytes = readFileSync(file);
  writeFileSync(file, bytes.fill(0xff, 4096, 12_288));
  expect(() => checkSqliteFile(file)).toThrow(/damaged|malformed/u);
});
