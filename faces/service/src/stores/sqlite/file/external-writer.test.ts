/** Tests that another program that writes to the file never stops the event loop. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, describe, expect, it } from "vitest";
import { createRedrive } from "../../../create-redrive.ts";
import { batch, create } from "../../store.testing.ts";
import { sqliteStore } from "../sqlite-store.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-external-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("a program that holds the write lock of the file", () => {
  it("fails each commit at once, with its cause, and nothing is lost after it ends", async () => {
    const file = join(folder, "store.db");
    const store = sqliteStore(file);
    const other = new DatabaseSync(file);
    other.exec("BEGIN IMMEDIATE");
    // A wait of 5 s for each of them would exceed the time limit of this test many times over.
    for (let n = 0; n < 20; n++) {
      await expect(store.commit(batch({ creates: [create()] }))).rejects.toThrow(
        /another program is writing to .*store\.db/u,
      );
    }
    other.exec("ROLLBACK");
    other.close();
    const { creates } = await store.commit(batch({ creates: [create()] }));
    expect(creates).toHaveLength(1);
    await store.close();
  });

  it("makes enqueue fail with a code; the service continues by itself", async () => {
    const file = join(folder, "service.db");
    const redrive = await createRedrive({ store: `sqlite:${file}`, onFatal: () => {} });
    const failures: unknown[] = [];
    redrive.onEvent(({ type, reason }) => {
      if (type === "store.failed") failures.push(reason);
    });
    const task = { targetUrl: "https://example.com/", scheduledAt: Date.now() + 3_600_000 };
    const other = new DatabaseSync(file);
    other.exec("BEGIN IMMEDIATE");
    await expect(redrive.enqueue(task)).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    expect(failures).toContainEqual(expect.stringContaining("another program is writing to"));
    other.exec("ROLLBACK");
    other.close();
    await expect(redrive.enqueue(task)).resolves.toMatchObject({ taskId: expect.any(String) });
    await redrive.stop();
  });
});
