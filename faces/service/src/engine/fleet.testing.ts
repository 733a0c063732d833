/** Test setup of a fleet: several engines on one shared memory store, on one virtual clock. */
import { type Outcome, seededRandom, statusOutcome, virtualClock } from "@redrive/core";
import { notStarted } from "../deliver/attempt.ts";
import type { CreateResult } from "../model/batch.ts";
import { blankDestination } from "../model/destination-row.ts";
import type { Store } from "../model/store.ts";
import type { NewTask } from "../model/task.ts";
import { namesOf, wrapped } from "../model/wrapped.testing.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import { batch, DESTINATION, newTask, T0, TENANT } from "../stores/store.testing.ts";
import { Engine } from "./engine.ts";

export interface FleetSent {
  readonly at: number;
  readonly nodeId: string;
  readonly taskId: string;
  readonly attemptNumber: number;
}

export interface FleetOptions {
  /** The document of the usual destination. Default: none. */
  readonly document?: object;
  /** How long an attempt takes. Default: 20 ms. */
  readonly durationMs?: number | (() => number);
  readonly outcome?: Outcome;
  readonly retentionMs?: number;
}

type Call = (...args: readonly unknown[]) => unknown;

/** The store, whose calls are answered by `answer`. */
function answering(inner: Store, answer: (call: () => unknown) => unknown): Store {
  const changed = <Part extends object>(part: Part): Part => {
    const changes: Record<string, Call> = {};
    for (const name of namesOf(part)) {
      const value = part[name];
      if (typeof value !== "function" || name === "onWakeUp" || name === "close") continue;
      changes[String(name)] = (...args) => answer(() => (part[name] as Call)(...args));
    }
    return wrapped(part, changes as Partial<Part>);
  };
  return wrapped(changed(inner), { query: changed(inner.query) });
}

export async function fleet(names: readonly string[], options: FleetOptions = {}) {
  const { durationMs = 20, outcome = statusOutcome(200) } = options;
  const clock = virtualClock(T0);
  const store: Store = memoryStore({ exclusive: false, clock });
  const killed = new Set<string>();
  const sent: FleetSent[] = [];
  let inFlight = 0;
  let maxInFlight = 0;

  /** A node that was killed gets no more results. */
  const storeOf = (nodeId: string): Store =>
    answering(store, (call) => (killed.has(nodeId) ? new Promise(() => {}) : call()));

  const boot = async (nodeId: string, nodeStore: Store = storeOf(nodeId)) => {
    const engine = await Engine.open({
      clock,
      random: seededRandom(nodeId),
      store: nodeStore,
      nodeId,
      ...(options.retentionMs !== undefined && { retentionMs: options.retentionMs }),
      deliver: ({ taskId, attemptNumber }, { signal }, done) => {
        if (killed.has(nodeId)) return;
        sent.push({ at: clock.now(), nodeId, taskId, attemptNumber });
        maxInFlight = Math.max(maxInFlight, ++inFlight);
        const tookMs = typeof durationMs === "number" ? durationMs : durationMs();
        let isOver = false;
        const end = (result: Outcome) => {
          if (isOver) return;
          isOver = true;
          inFlight--;
          const status = result.kind === "status" ? result.status : null;
          if (!killed.has(nodeId))
            done({ ...notStarted(result, null), status, durationMs: tookMs });
        };
        clock.alarm(tookMs, () => end(outcome));
        signal.addEventListener("abort", () => end({ kind: "aborted" }));
      },
    });
    await clock.run(engine.start());
    return engine;
  };

  if (options.document !== undefined) await putDocument(options.document);
  const engines: Engine[] = [];
  for (const name of names) engines.push(await boot(name));
  // The nodes learn of each other.
  await clock.advance(1500);

  async function putDocument(document: object): Promise<void> {
    const stored = await store.getDestination(TENANT, DESTINATION);
    const row = stored ?? blankDestination(TENANT, DESTINATION);
    const changed = { ...row, version: row.version + 1, document: JSON.stringify(document) };
    await store.commit(batch({ now: clock.now(), destinations: [{ row: changed }] }));
  }

  /** Creates a task on that node, in a partition of its choice unless there is a key. */
  async function enqueue(engine: Engine, fields: Partial<NewTask> = {}): Promise<string> {
    const now = engine.now();
    const base = newTask({ createdAt: now, scheduledAt: now, ...fields });
    const byte = engine.partitionByte(TENANT, base.idempotencyKey) ?? 0;
    const partition = byte.toString(16).padStart(2, "0");
    const taskId = base.taskId.replace(/-80..(?=-.{12}$)/u, `-80${partition}`);
    const fingerprint = base.idempotencyKey === null ? null : "fingerprint";
    const created = new Promise<CreateResult>((done, failed) =>
      engine.create({ ...base, taskId }, fingerprint, done, failed),
    );
    await clock.advance(1);
    await created;
    return taskId;
  }

  return {
    clock,
    store,
    engines,
    boot,
    storeOf,
    enqueue,
    putDocument,
    sent,
    kill: (nodeId: string) => killed.add(nodeId),
    maxInFlight: () => maxInFlight,
    get: (taskId: string) => store.query.get(TENANT, taskId),
  };
}
