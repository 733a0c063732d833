/** Tests that a batch which creates and claims has the same result as in the memory store. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import type { Batch, StartedTask } from "../../model/batch.ts";
import { memoryStore } from "../memory/memory-store.ts";
import { batch, claimOf, create, settle, T0 } from "../store.testing.ts";
import { normalized } from "../store-content.testing.ts";
import { sqliteStore } from "./sqlite-store.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-new-claims-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;
const newStore = () => sqliteStore(join(folder, `${++files}.db`));

/** Instants around now, mostly in order and due, as in a busy service. */
const dueTimes = fc.oneof(
  fc
    .array(fc.integer({ min: -20, max: 0 }), { maxLength: 6 })
    .map((times) => times.sort((a, b) => a - b)),
  fc.array(fc.integer({ min: -20, max: 12 }), { maxLength: 6 }),
);

const step = fc.record({
  dueTimes,
  limit: fc.integer({ min: 0, max: 8 }),
  aheadMs: fc.constantFrom(-5, 0, 8),
  aheadLimit: fc.integer({ min: 0, max: 4 }),
  ends: fc.constantFrom("SUCCEEDED", "PENDING"),
  isTwice: fc.boolean(),
});

describe("a batch that creates and claims", () => {
  it("claims waiting and new tasks as if all had been inserted first", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 6 }), async (steps) => {
        const store = newStore();
        const model = memoryStore({ exclusive: true, partitions: 1 });
        const held: (readonly StartedTask[])[] = [[], []];
        for (const [index, { ends, ...one }] of steps.entries()) {
          const now = T0 + index * 10;
          const creates = one.dueTimes.map((ms) => create({ scheduledAt: now + ms }));
          const claim = claimOf("first", {
            ...one,
            aheadLimit: Math.min(one.aheadLimit, one.limit),
          });
          const claims = one.isTwice ? [claim, claim] : [claim];
          const results: unknown[] = [];
          for (const [at, target] of [store, model].entries()) {
            const settles = held[at]?.map((task) =>
              settle(task, { status: ends, lane: "first", nextAttemptAt: now - 3 }),
            );
            const parts: Partial<Batch> = { now, creates, settles: settles ?? [], claims };
            const result = await target.commit(batch(parts));
            held[at] = result.claims.flatMap(({ tasks }) => tasks);
            results.push(normalized(result));
          }
          expect(results[0]).toEqual(results[1]);
        }
        await store.close();
      }),
      { numRuns: 60 },
    );
  });

  it("inserts new tasks already claimed while permits are left", async () => {
    const store = newStore();
    await store.commit(batch({ creates: [create()] }));
    const creates = [create(), create(), create()];
    const [claim] = (
      await store.commit(batch({ creates, claims: [claimOf("first", { limit: 3 })] }))
    ).claims;
    expect(claim?.tasks.slice(1).map(({ taskId }) => taskId)).toEqual(
      creates.slice(0, 2).map(({ task }) => task.taskId),
    );
    expect(claim?.nextDueAts).toEqual([creates[2]?.task.scheduledAt]);
    await store.close();
  });
});
