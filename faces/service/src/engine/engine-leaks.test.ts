/** Tests that an engine under every kind of failure at once sends nothing wrong and leaks nothing. */
import {
  type Outcome,
  type Random,
  seededRandom,
  statusOutcome,
  virtualClock,
} from "@redrive/core";
import { describe, expect, it } from "vitest";
import { notStarted } from "../deliver/attempt.ts";
import type { Store } from "../model/store.ts";
import { StoreFullError } from "../model/store-errors.ts";
import { isEnded } from "../model/task.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import { pinnedTask, T0, TENANT } from "../stores/store.testing.ts";
import { Engine } from "./engine.ts";
import type { Deliver } from "./runner.ts";

const SEEDS = 20;
const STEPS = 250;
const NAMES = ["one", "two", "three"] as const;

/** Some have a low concurrency limit, some a small retry budget. */
const DOCUMENTS = [
  {},
  { concurrency: { max: 1 } },
  { concurrency: { max: 6, maxRetries: 1 } },
  { rate: { perSecond: 50 } },
  { breaker: { minCalls: 4, openMs: 300 }, retryBudget: { kind: "GRPC" } },
  { retryBudget: { kind: "TOKENS", maxTokens: 20, costPerRetry: 2, costPerThrottle: 5 } },
].map((document) => JSON.stringify(document));

const POLICIES = [{ totalBudgetMs: 20_000 }, { initialDelayMs: 10, totalBudgetMs: 120 }];
const CURVE = { initialDelayMs: 5, maxDelayMs: 60, maxAttempts: 6 };

const quiet = () => undefined;

/** Draws integers below a maximum. */
const integersOf = (random: Random) => (max: number) => Math.floor(random.next() * max);

/** A store that is slow and fails while `faults.isOn`. */
function faultyStore(inner: Store, clock: ReturnType<typeof virtualClock>, seed: number) {
  const draw = integersOf(seededRandom(`store ${seed}`));
  const faults = { isOn: true, commits: 0 };
  const store: Store = {
    ...inner,
    async commit(batch) {
      faults.commits++;
      if (faults.isOn) await clock.sleep(draw(4) * draw(5));
      if (faults.isOn && draw(30) === 0) throw new StoreFullError("no space");
      const result = await inner.commit(batch);
      if (faults.isOn) await clock.sleep(draw(3));
      return result;
    },
    async getPolicy(...ref) {
      if (faults.isOn) await clock.sleep(draw(8));
      if (faults.isOn && draw(4) === 0) throw new Error("nothing was read");
      return inner.getPolicy(...ref);
    },
  };
  return { store, faults };
}

/** Targets that respond quickly, and check the requests that they receive. */
function targets(clock: ReturnType<typeof virtualClock>, seed: number) {
  const draw = integersOf(seededRandom(`targets ${seed}`));
  const wrong: string[] = [];
  const seen = new Set<string>();
  const state = { isOver: false };
  const deliver: Deliver = (task, { signal, now }, done) => {
    const claim = `${task.taskId}, claim ${task.claimEpoch}`;
    if (now < task.nextAttemptAt) wrong.push(`${claim} left early`);
    if (seen.has(claim)) wrong.push(`${claim} left twice`);
    if (state.isOver) wrong.push(`${claim} left after the stop`);
    seen.add(claim);
    const end = (outcome: Outcome) => done({ ...notStarted(outcome, null), durationMs: 1 });
    const status = [200, 200, 500, 429][draw(4)] ?? 200;
    const cancel = clock.alarm(draw(12), () => end(statusOutcome(status)));
    signal.addEventListener("abort", () => {
      cancel();
      end({ kind: "aborted" });
    });
  };
  return { deliver, wrong, state };
}

async function setup(seed: number) {
  const clock = virtualClock(T0);
  const inner = memoryStore();
  for (const [index, fields] of POLICIES.entries()) {
    const policy = { tenantId: TENANT, policyId: "background", version: index + 1, createdAt: T0 };
    await inner.addPolicy({ ...policy, document: JSON.stringify({ ...CURVE, ...fields }) });
  }
  const { store, faults } = faultyStore(inner, clock, seed);
  const { deliver, wrong, state } = targets(clock, seed);
  const random = seededRandom(seed);
  const engine = await Engine.open({ clock, random, store, deliver, nodeId: "node-1" });
  await engine.start();
  return { clock, inner, engine, faults, wrong, state };
}

/** Tasks, most of them due soon, that are canceled and retried, at destinations that change. */
async function meddle({ clock, engine }: Awaited<ReturnType<typeof setup>>, seed: number) {
  const draw = integersOf(seededRandom(`clients ${seed}`));
  const taskIds: string[] = [];
  for (let step = 0; step < STEPS; step++) {
    const what = draw(20);
    const taskId = taskIds[draw(taskIds.length)] ?? "none";
    const destination = NAMES[draw(NAMES.length)] ?? "one";
    const change = (fields: Parameters<Engine["changeDestination"]>[2]) =>
      engine.changeDestination(TENANT, destination, fields).catch(quiet);
    if (what < 9) {
      const createdAt = engine.now();
      const scheduledAt = createdAt + draw(2) * draw(30);
      const policyVersion = 1 + draw(POLICIES.length);
      const task = pinnedTask({ destination, createdAt, scheduledAt, policyVersion });
      taskIds.push(task.taskId);
      engine.create(task, null, quiet, quiet);
    } else if (what < 12) engine.cancel({ tenantId: TENANT, taskId }).catch(quiet);
    else if (what < 13) engine.retryNow({ tenantId: TENANT, taskId }).catch(quiet);
    else if (what < 14) change({ pausedAt: draw(2) === 0 ? engine.now() : null });
    else if (what < 15) change({ document: DOCUMENTS[draw(DOCUMENTS.length)] ?? null });
    await clock.advance(draw(6));
  }
}

/** What the engine still holds for attempts after all have ended. */
function keptBy(engine: Engine) {
  return NAMES.map((name) => {
    const { users, guards } = engine.destination(TENANT, name);
    const { inFlight, retriesInFlight } = guards.concurrency ?? {};
    return { users, inFlight, retriesInFlight, underWay: engine.underWay() };
  });
}

const NOTHING = NAMES.map(() => ({ users: 0, inFlight: 0, retriesInFlight: 0, underWay: 0 }));

describe("an engine under all kinds of failures", () => {
  it(`stops and holds nothing, on ${SEEDS} seeds`, async () => {
    for (let seed = 0; seed < SEEDS; seed++) {
      const tools = await setup(seed);
      const { clock, engine, faults, wrong, state } = tools;
      await meddle(tools, seed);
      faults.isOn = false;
      await clock.run(engine.stop(seed % 20));
      state.isOver = true;
      await clock.advance(1000);
      expect({ seed, wrong, kept: keptBy(engine) }).toEqual({ seed, wrong: [], kept: NOTHING });
      expect(clock.pending()).toBe(0);
    }
  });

  it(`ends every task and becomes idle, on ${SEEDS} seeds`, async () => {
    for (let seed = 0; seed < SEEDS; seed++) {
      const tools = await setup(seed);
      const { clock, inner, engine, faults, wrong } = tools;
      await meddle(tools, seed);
      faults.isOn = false;
      await clock.advance(1000);
      for (const name of NAMES) {
        const change = { pausedAt: null, document: null };
        await clock.run(engine.changeDestination(TENANT, name, change));
      }
      const before = faults.commits;
      await clock.advance(100_000);
      expect(faults.commits - before).toBeLessThan(1000);
      expect(inner.all().filter(({ status }) => !isEnded(status))).toEqual([]);
      expect({ seed, wrong, kept: keptBy(engine) }).toEqual({ seed, wrong: [], kept: NOTHING });
      await clock.run(engine.stop(0));
    }
  });
});
