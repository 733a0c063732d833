/** Test setup of the engine: an engine on virtual time whose attempts a test or a script ends. */
import {
  type Outcome,
  type resolvePolicy,
  seededRandom,
  statusOutcome,
  virtualClock,
} from "@redrive/core";
import { type AttemptResult, notStarted } from "../deliver/attempt.ts";
import type { CreateResult, StartedTask } from "../model/batch.ts";
import type { NewTask } from "../model/task.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import { pinnedTask, T0, TENANT } from "../stores/store.testing.ts";
import { Engine, type EngineOptions } from "./engine.ts";

export interface Sent {
  readonly at: number;
  readonly task: StartedTask;
  readonly finish: (outcome: Outcome) => void;
  /** Ends it with that result. */
  readonly end: (result: AttemptResult) => void;
}

/** An engine on virtual time. A test ends each attempt, or a script of outcomes does. */
export async function setup(
  policyFields: Parameters<typeof resolvePolicy>[0] = {},
  startAt = T0,
  options: Omit<
    EngineOptions,
    "clock" | "random" | "store" | "deliver" | "nodeId" | "onFatal"
  > = {},
) {
  const clock = virtualClock(startAt);
  const store = memoryStore();
  const policy = { tenantId: TENANT, policyId: "background", version: 1, createdAt: T0 };
  await store.addPolicy({ ...policy, document: JSON.stringify(policyFields) });
  const sent: Sent[] = [];
  const script: Outcome[] = [];
  const killed = new Set<string>();
  /** The store as a node sees it. A node that was killed gets no more answers. */
  const storeOf = (nodeId: string) =>
    new Proxy(store, {
      get(target, key) {
        const value: unknown = Reflect.get(target, key);
        const isGone = killed.has(nodeId) && typeof value === "function";
        return isGone ? () => new Promise(() => {}) : value;
      },
    });
  const boot = async (nodeId: string) => {
    const engine = await Engine.open({
      ...options,
      clock,
      random: seededRandom("engine"),
      store: storeOf(nodeId),
      nodeId,
      deliver: (task, { signal }, done) => {
        const startMs = clock.monotonicMs();
        let isOver = false;
        const end = (result: AttemptResult) => {
          if (isOver) return;
          isOver = true;
          done(result);
        };
        const finish = (outcome: Outcome) => {
          const durationMs = clock.monotonicMs() - startMs;
          const result: AttemptResult = { ...notStarted(outcome, null), durationMs };
          end(outcome.kind === "status" ? { ...result, status: outcome.status } : result);
        };
        sent.push({ at: clock.now(), task, finish, end });
        signal.addEventListener("abort", () => finish({ kind: "aborted" }));
        const outcome = script.shift();
        if (outcome !== undefined) clock.alarm(10, () => finish(outcome));
      },
    });
    await engine.start();
    return engine;
  };
  const engine = await boot("node-1");
  const enqueue = (fields: Partial<NewTask> = {}, fingerprint: string | null = null) => {
    const task = pinnedTask({ createdAt: clock.now(), scheduledAt: clock.now(), ...fields });
    const created = new Promise<CreateResult>((done, failed) =>
      engine.create(task, fingerprint, done, failed),
    );
    return { task, created };
  };
  const get = (taskId: string) => store.query.get(TENANT, taskId);
  const kill = (nodeId: string) => killed.add(nodeId);
  return { clock, store, engine, boot, kill, enqueue, sent, script, get };
}

export const FAILED = statusOutcome(500);
export const OK = statusOutcome(200);
