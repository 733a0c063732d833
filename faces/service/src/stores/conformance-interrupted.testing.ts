/**
 * Conformance of interrupted commits: whatever part of a commit was stored when it failed, repeating
 * it stores each item once. For stores that a test can interrupt.
 */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Batch } from "../model/batch.ts";
import { blankDestination } from "../model/destination-row.ts";
import type { Store } from "../model/store.ts";
import { memoryStore } from "./memory/memory-store.ts";
import { batch, claimOf, create, DESTINATION, settle, T0, TENANT } from "./store.testing.ts";
import { contentOf, normalized } from "./store-content.testing.ts";

export interface InterruptibleStore {
  readonly store: Store;
  /** Commits an unknown part of the batch: all of it, some of it, or nothing. */
  interrupt(batch: Batch): Promise<unknown>;
}

/** `rounds`: how often to run, for a store that is interrupted at random. */
export function interruptedConformance(
  name: string,
  rounds: number,
  open: (round: number) => Promise<InterruptibleStore>,
): void {
  describe.each(Array.from({ length: rounds }, (_, round) => round))(
    `an interrupted commit of the ${name} store, round %i,`,
    (round) => {
      let interruptible: InterruptibleStore;
      beforeEach(async () => {
        interruptible = await open(round);
      });
      afterEach(() => interruptible.store.close());

      it("can be repeated, and stores each create, settle, cancel and row once", async () => {
        const { store, interrupt } = interruptible;
        const work = workload();
        await runTwice(work, (part) => interrupt(part), store);
        const model = memoryStore({ exclusive: store.exclusive });
        await runTwice(work, async () => {}, model);
        expect(normalized(await contentOf(store))).toEqual(normalized(await contentOf(model)));
      });

      it("leaves claims that the node finds, releases, and makes again", async () => {
        const { store, interrupt } = interruptible;
        const creates = Array.from({ length: 6 }, () => create());
        await store.commit(batch({ creates }));
        const claims = [claimOf("first", { limit: 3 }), claimOf("first", { limit: 3 })];
        await interrupt(batch({ claims }));
        const unknown = await store.claimsOf("node-1", 50);
        const settles = unknown.map((task) =>
          settle(task, { attempt: null, lane: "first", nextAttemptAt: T0 }),
        );
        await store.commit(batch({ settles }));
        const { claims: made } = await store.commit(batch({ claims }));
        const ids = made.flatMap(({ tasks }) => tasks.map(({ taskId }) => taskId));
        expect(ids.sort()).toEqual(creates.map(({ task }) => task.taskId));
        expect(await store.query.count(TENANT)).toEqual({ IN_FLIGHT: 6 });
      });
    },
  );
}

function workload() {
  return Array.from({ length: 4 }, (_, n) =>
    create({ idempotencyKey: `k${n}` }, { fingerprint: "f" }),
  );
}

/** Each commit is interrupted, and then made. */
async function runTwice(
  creates: ReturnType<typeof workload>,
  interrupt: (batch: Batch) => Promise<unknown>,
  store: Store,
): Promise<void> {
  const row = { ...blankDestination(TENANT, DESTINATION), version: 1, gateUntil: T0 };
  const commit = async (part: Batch) => {
    await interrupt(part);
    return store.commit(part);
  };
  const created = await commit(batch({ destinations: [{ row }], creates }));
  for (const result of created.creates) expect(["created", "replayed"]).toContain(result.kind);
  for (const stored of created.destinations) expect([null, row]).toContainEqual(stored);
  const { claims } = await store.commit(
    batch({ claims: [claimOf("first", { limit: 3, version: 1 })] }),
  );
  const tasks = claims.flatMap((claim) => claim.tasks);
  expect(tasks).toHaveLength(3);
  const settles = tasks.map((task, n) =>
    settle(task, n === 0 ? { status: "SUCCEEDED", reason: "succeeded" } : {}),
  );
  const cancels = creates.slice(3).map(({ task }) => task);
  const ended = await commit(batch({ settles, cancels }));
  for (const [index, result] of ended.settles.entries()) {
    expect([settles[index]?.status, "fenced"]).toContain(result);
  }
  expect(ended.cancels).toEqual([{ kind: "cancelled" }]);
}
