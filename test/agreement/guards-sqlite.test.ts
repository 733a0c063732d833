/** Agreement with guards on, for the service with its SQLite store. See `guards.test.ts`. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { sqliteStore } from "../../faces/service/src/stores/sqlite/sqlite-store.ts";
import { compareService, DOCUMENTS, REDRIVE_SEED } from "./compare.ts";

/** No process is killed here, so the files can be in memory. */
const FOLDER = existsSync("/dev/shm") ? "/dev/shm" : tmpdir();

/** Each document has its own file. This takes a minute and a half of processor time. */
const timeout = 600_000;

test(`the service on SQLite matches the library for ${DOCUMENTS} documents`, {
  timeout,
}, async () => {
  const folder = mkdtempSync(join(FOLDER, "redrive-agreement-"));
  let files = 0;
  try {
    await compareService(DOCUMENTS, () => sqliteStore(join(folder, `${files++}.db`)));
  } finally {
    rmSync(folder, { recursive: true });
  }
  if (REDRIVE_SEED === undefined) expect(files).toBe(DOCUMENTS);
});
