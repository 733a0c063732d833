/** The collector removes what no task uses, and nothing that a create could still refer to. */
import { expect, test } from "vitest";
import type { RetryTask } from "../model/task.ts";
import type { TaskFilter } from "../model/task-query.ts";
import { BlobCollector } from "./blob-collector.ts";
import type { StoredBlob } from "./blob-store.ts";

const HOUR_MS = 3_600_000;

/** Blobs with a number as their id, and the ids that tasks use. */
class Fixture {
  now = 100 * HOUR_MS;
  readonly blobs = new Map<number, number>();
  readonly used = new Set<number>();
  asked = 0;
  failing = false;

  readonly collector = new BlobCollector({
    now: () => this.now,
    blobs: {
      list: () => this.#list(),
      remove: async (_, { blobId }) => {
        this.blobs.delete(Number(blobId));
      },
    },
    query: {
      list: async (tenantId: string, { label }: TaskFilter, page) => {
        this.asked++;
        if (this.failing) throw new Error("the store is down");
        expect([tenantId, label?.name]).toEqual(["acme", "redrive.body"]);
        // The first page is empty although more may follow.
        if (page.cursor === undefined) return { tasks: [], cursor: "more" };
        const isUsed = this.used.has(Number(label?.value));
        return { tasks: isUsed ? [{} as RetryTask] : [], cursor: null };
      },
    },
  });

  async *#list(): AsyncGenerator<StoredBlob> {
    for (const [id, storedAt] of [...this.blobs]) {
      const ref = { blobId: String(id), length: 1, sha256: "" };
      yield { tenantId: "acme", ref, storedAt };
    }
  }

  /** One round; returns the number of slices. */
  async round(): Promise<number> {
    for (let slices = 1; ; slices++) if (!(await this.collector.runOnce())) return slices;
  }
}

test("a blob that no task uses is removed in the second round, at most nine hours after its upload", async () => {
  const fixture = new Fixture();
  fixture.blobs.set(1, fixture.now);
  fixture.blobs.set(2, fixture.now);
  fixture.used.add(2);
  const start = fixture.now;
  while (fixture.blobs.has(1)) {
    fixture.now += 60_000;
    await fixture.round();
  }
  expect(fixture.now - start).toBeGreaterThanOrEqual(7 * HOUR_MS);
  expect(fixture.now - start).toBeLessThanOrEqual(9 * HOUR_MS);
  expect([...fixture.blobs.keys()]).toEqual([2]);
  fixture.used.delete(2);
  fixture.now += 3 * HOUR_MS;
  await fixture.round();
  fixture.now += HOUR_MS;
  await fixture.round();
  expect(fixture.blobs.size).toBe(0);
});

test("a blob that is used again between two rounds stays, and is counted from the beginning", async () => {
  const fixture = new Fixture();
  fixture.blobs.set(1, fixture.now - 10 * HOUR_MS);
  await fixture.round();
  fixture.used.add(1);
  fixture.now += HOUR_MS;
  await fixture.round();
  fixture.used.delete(1);
  fixture.now += HOUR_MS;
  await fixture.round();
  expect(fixture.blobs.has(1)).toBe(true);
  fixture.now += HOUR_MS;
  await fixture.round();
  expect(fixture.blobs.has(1)).toBe(false);
});

test("young blobs cost no read of the store, and a round takes one slice per fifty blobs", async () => {
  const fixture = new Fixture();
  for (let id = 0; id < 120; id++) fixture.blobs.set(id, fixture.now - 5 * HOUR_MS);
  expect(await fixture.round()).toBe(3);
  expect(fixture.asked).toBe(0);
  // The next round begins an hour after the last one.
  fixture.now += HOUR_MS - 1;
  expect(await fixture.round()).toBe(1);
});

test("while the store is down, nothing is removed and the next round continues", async () => {
  const fixture = new Fixture();
  fixture.blobs.set(1, fixture.now - 10 * HOUR_MS);
  await fixture.round();
  fixture.now += HOUR_MS;
  fixture.failing = true;
  await expect(fixture.round()).rejects.toThrow("the store is down");
  expect(fixture.blobs.has(1)).toBe(true);
  fixture.failing = false;
  fixture.now += HOUR_MS;
  await fixture.round();
  expect(fixture.blobs.has(1)).toBe(false);
});
