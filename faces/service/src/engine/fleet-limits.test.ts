/** Tests that a fleet obeys the limit of a document while nodes learn of it at different times. */
import { resolveDestination, seededRandom, statusOutcome } from "@redrive/core";
import { describe, expect, it } from "vitest";
import type { NodeReport } from "../model/node-report.ts";
import type { Store } from "../model/store.ts";
import { wrapped } from "../model/wrapped.testing.ts";
import { DESTINATION, TENANT } from "../stores/store.testing.ts";
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

/** Eight nodes, and what they report of destinations. */
async function countedFleet(options: Parameters<typeof fleet>[1] = {}) {
  const bench = await fleet([], options);
  const { clock, boot, storeOf } = bench;
  const seen = { exchanges: 0, reports: 0 };
  const nodes: Engine[] = [];
  for (let n = 0; n < 8; n++) {
    const nodeId = `node-${n}`;
    const inner = storeOf(nodeId);
    const renew = (report: NodeReport) => {
      seen.exchanges++;
      seen.reports += report.destinations.length;
      return inner.renew(report);
    };
    nodes.push(await boot(nodeId, wrapped<Store>(inner, { renew })));
  }
  await clock.advance(3000);
  Object.assign(seen, { exchanges: 0, reports: 0 });
  return { ...bench, nodes, seen };
}

it("destinations without a document are not exchanged, however busy they are", async () => {
  const { clock, nodes, enqueue, seen, sent, maxInFlight } = await countedFleet({
    durationMs: 500,
  });
  for (let n = 0; n < 400; n++) {
    await enqueue(nodes[n % 8] as Engine, { destination: `tenant-${n % 40}` });
  }
  await clock.advance(10_000);
  expect(sent).toHaveLength(400);
  expect(seen.exchanges).toBeGreaterThan(60);
  expect(seen.reports).toBe(0);
  expect(maxInFlight()).toBeGreaterThan(40);
});

it("all nodes together keep the default limit of a destination", async () => {
  const { clock, nodes, enqueue, sent, maxInFlight } = await countedFleet({ durationMs: 5000 });
  const { max } = resolveDestination({}, "service").concurrency as { max: number };
  for (let n = 0; n < 2 * max; n++) await enqueue(nodes[n % 8] as Engine);
  await clock.advance(4000);
  expect(maxInFlight()).toBe(max);
  await clock.advance(60_000);
  expect(sent).toHaveLength(2 * max);
});

it("a node that holds tasks of a paused destination learns that another has resumed it", async () => {
  const { clock, nodes, enqueue, sent, seen } = await countedFleet();
  const [first, second] = nodes as [Engine, Engine];
  await clock.run(first.changeDestination(TENANT, DESTINATION, { pausedAt: clock.now() }));
  for (let n = 0; n < 16; n++) await enqueue(nodes[n % 8] as Engine);
  await clock.advance(5000);
  expect(sent).toEqual([]);
  await clock.run(second.changeDestination(TENANT, DESTINATION, { pausedAt: null }));
  await clock.advance(1500);
  expect(sent).toHaveLength(16);
  await clock.advance(2000);
  seen.reports = 0;
  await clock.advance(5000);
  expect(seen.reports).toBe(0);
});

it("eight nodes together retry at the minimum of the default budget", async () => {
  const outcome = statusOutcome(503);
  const { clock, nodes, enqueue, sent } = await countedFleet({ outcome });
  for (let n = 0; n < 16; n++) await enqueue(nodes[n % 8] as Engine);
  await clock.advance(60_000);
  const retries = sent.filter(({ attemptNumber }) => attemptNumber > 1);
  expect(retries.length).toBeGreaterThan(0);
  for (const { at } of retries) {
    const within = retries.filter((one) => one.at >= at && one.at < at + 10_000);
    expect(within.length).toBeLessThanOrEqual(10 + 16 * 0.1);
  }
});

it("a node that learns of a document from a refused claim asks for its share", async () => {
  const { clock, nodes, enqueue, sent, putDocument } = await countedFleet();
  await putDocument(limit(16));
  for (let n = 0; n < 8; n++) await enqueue(nodes[n] as Engine);
  await clock.advance(3000);
  expect(sent).toHaveLength(8);
});

describe("a limit on slots and a rate that are both smaller than the number of nodes", () => {
  it("are used together: more than half of the rate is sent, although slots and tokens are granted apart", async () => {
    const names = Array.from({ length: 16 }, (_, n) => `node-${n}`);
    const concurrency = { algorithm: "FIXED", max: 3 };
    const rate = { perSecond: 3, burst: 1 };
    const document = { retryBudget: false, breaker: false, concurrency, rate };
    const { clock, engines, enqueue, sent } = await fleet(names, { document, durationMs: 100 });
    const scheduledAt = clock.now() + 1000;
    for (let n = 0; n < 90; n++) {
      await enqueue(engines[0] as Engine, { idempotencyKey: `key-${n}`, scheduledAt });
    }
    await clock.advance(31_000);
    expect(sent.length).toBeGreaterThan(45);
    await clock.advance(30_000);
    expect(sent).toHaveLength(90);
  });
});
