/** Tests that a fleet obeys the limit of a document while nodes learn of it at different times. */
import { seededRandom } from "@redrive/core";
import { expect, it } from "vitest";
import type { NodeReport } from "../model/node-report.ts";
import type { Store } from "../model/store.ts";
import { wrapped } from "../model/store-wrappers/wrapped.ts";
import type { Engine } from "./engine.ts";
import { fleet } from "./fleet.testing.ts";

const SLOTS = 5;
const TASKS = 20;
/** How long a request of an exchange, and its response, may be on the way. */
const MAX_LATENCY_MS = 300;

/** Longer than zero, so that a slot may be free while an exchange is on the way. */
const COMMIT_MS = 60;

const limit = (max: number) => ({
  ...{ retryBudget: false, breaker: false },
  concurrency: { algorithm: "FIXED", max },
});

/** Nodes whose exchanges with the store take different times. */
async function slowFleet(seed: string) {
  const random = seededRandom(seed);
  const durationMs = () => 20 + Math.floor(random.next() * 80);
  const bench = await fleet([], { document: limit(16), durationMs });
  const { clock, boot, storeOf } = bench;
  const onTheWay = () => clock.sleep(Math.floor(random.next() * MAX_LATENCY_MS));
  const bootSlow = (nodeId: string) => {
    const inner = storeOf(nodeId);
    const renew = async (report: NodeReport) => {
      await onTheWay();
      const renewal = await inner.renew(report);
      await onTheWay();
      return renewal;
    };
    const commit: Store["commit"] = async (batch) => {
      const result = await inner.commit(batch);
      if (batch.creates.length === 0) await clock.sleep(COMMIT_MS);
      return result;
    };
    return boot(nodeId, wrapped<Store>(inner, { renew, commit }));
  };
  const nodes: Engine[] = [];
  for (const nodeId of ["node-1", "node-2", "node-3"]) nodes.push(await bootSlow(nodeId));
  await clock.advance(3000);
  return { ...bench, nodes };
}

// Of forty seeds, this one showed six attempts at once before shares in use counted as used.
it("a smaller limit holds while nodes still ask for slots of the larger one", async () => {
  const { clock, nodes, enqueue, putDocument, sent, maxInFlight } = await slowFleet("seed 0");
  const [first, ...others] = nodes as [Engine, Engine, Engine];
  // The others know the old limit. Their next tasks are due while the first node is busy.
  const scheduledAt = clock.now() + 15_000;
  for (const engine of others) {
    await enqueue(engine);
    for (let n = 0; n < TASKS; n++) await enqueue(engine, { scheduledAt });
  }
  await clock.advance(13_500);
  await putDocument(limit(SLOTS));
  for (let n = 0; n < 12 * TASKS; n++) await enqueue(first);
  await clock.advance(60_000);
  expect(sent).toHaveLength(14 * TASKS + 2);
  expect(maxInFlight()).toBeLessThanOrEqual(SLOTS);
});
