/** Service run: runs a guard case through the service's engine on a virtual clock. */
import { type DestinationDocument, type Random, seededRandom } from "@redrive/core";
import { notStarted } from "../../faces/service/src/deliver/attempt.ts";
import { Engine } from "../../faces/service/src/engine/engine.ts";
import type { Store } from "../../faces/service/src/model/store.ts";
import { newTask } from "../../faces/service/src/stores/store.testing.ts";
import type { GuardCase } from "./guard-cases.ts";
import { type GuardedRun, type RunAttempt, type RunEnd, sortedRun } from "./guarded-run.ts";
import { keyOf, NAME } from "./library-run.ts";
import { orderedClock } from "./ordered-clock.ts";

const START_AT = 1_700_000_000_000;
const TENANT = "acme";

export async function runService(given: GuardCase, store: Store): Promise<GuardedRun> {
  const { base, face: clock, ends: endsClock, arrivals } = orderedClock(START_AT, "event");
  const now = () => base.now() - START_AT;
  const attempts: RunAttempt[] = [];
  const ends: RunEnd[] = [];
  const dueAt = [...given.arrivals];
  const { policy, ...document } = given.document;
  const policyRow = { tenantId: TENANT, policyId: "case", version: 1, createdAt: START_AT };
  await store.addPolicy({ ...policyRow, document: JSON.stringify(policy) });
  const engine = await Engine.open({
    clock,
    random: streamsOf(given.seed),
    store,
    nodeId: "node-1",
    claimAheadMs: 0,
    // The budget for all destinations is on by default. This case tests one destination.
    retryBudget: false,
    deliver: ({ taskId, attemptNumber }, _, done) => {
      const { outcome, durationMs } = given.outcomeOf(callOf(taskId), attemptNumber, 0);
      endsClock.alarm(durationMs, () => done({ ...notStarted(outcome, null), durationMs }));
    },
  });
  engine.events.listen((event) => {
    if (event.taskId === undefined) return;
    const call = callOf(event.taskId);
    if (event.nextAttemptAt !== undefined) dueAt[call] = event.nextAttemptAt - START_AT;
    if (event.type === "attempt.started") {
      const due = dueAt[call] ?? 0;
      const heldBy = now() > due && event.heldBy ? { heldBy: event.heldBy } : {};
      attempts.push({
        call,
        attempt: event.attemptNumber ?? 0,
        copy: 0,
        dueAt: due,
        at: now(),
        ...heldBy,
      });
    }
    if (event.type === "task.succeeded") ends.push({ call, at: now(), reason: "succeeded" });
    if (event.type !== "task.exhausted") return;
    ends.push({ call, at: now(), reason: event.reason ?? "", ...(event.by && { by: event.by }) });
  });
  await engine.start();
  const text = JSON.stringify(withoutHedge(document));
  await base.run(engine.changeDestination(TENANT, NAME, { document: text }));
  for (const [call, arrival] of given.arrivals.entries()) {
    arrivals.alarm(arrival, () => create(engine, call, START_AT + arrival));
  }
  while (ends.length < given.arrivals.length) await base.step();
  await base.run(engine.stop(0));
  return sortedRun({ attempts, ends });
}

function create(engine: Engine, call: number, at: number): void {
  const fields = { tenantId: TENANT, destination: NAME, policyId: "case", policyVersion: 1 };
  const task = newTask({ ...fields, taskId: keyOf(call), createdAt: at, scheduledAt: at });
  engine.create(
    task,
    null,
    () => undefined,
    (error: unknown) => {
      throw error;
    },
  );
}

function callOf(taskId: string): number {
  return Number(taskId.split("-")[1]);
}

/** The service rejects hedges (decision 0010). */
function withoutHedge({ hedge: _, ...document }: DestinationDocument): DestinationDocument {
  return document;
}

/** The same random streams as in the library: one for the destination's guards, one per call. */
function streamsOf(seed: number): Random {
  const shop = seededRandom(seed).fork(NAME);
  return {
    next: () => shop.next(),
    fork: (name) => shop.fork(name.startsWith("destination/") ? "guards" : name),
  };
}
