/**
 * Destination operations: pause, resume and configure a destination, report the health of
 * destinations, and explain why a task is not running.
 */
import { type DestinationDocument, remainingMs, resolveDestination } from "@redrive/core";
import type { Engine } from "../engine/engine.ts";
import { historyOf, requestOf } from "../engine/run/settlement.ts";
import type { DestinationPolicies } from "../intake/destination-policies.ts";
import { assertDestinationName } from "../model/destination-name.ts";
import { blankDestination, type DestinationRow } from "../model/destination-row.ts";
import { hedgeRefused } from "../model/errors.ts";
import { isUnreadable } from "../model/policy-cache.ts";
import type { Store } from "../model/store.ts";
import type { RetryTask } from "../model/task.ts";
import type { TaskCount } from "../model/task-query.ts";
import {
  byDestination,
  type DestinationHealth,
  healthOfDestination,
} from "./destination-health.ts";
import { explainTask, type TaskFacts } from "./explain-task.ts";
import { serviceHoldOf } from "./service-hold.ts";

export interface DestinationOperationsParts {
  readonly store: Store;
  readonly engine: Engine;
  readonly destinationPolicies: DestinationPolicies;
}

export class DestinationOperations {
  readonly #parts: DestinationOperationsParts;

  constructor(parts: DestinationOperationsParts) {
    this.#parts = parts;
  }

  async pause(tenantId: string, name: string): Promise<DestinationRow> {
    assertDestinationName(name);
    const { engine } = this.#parts;
    return engine.changeDestination(tenantId, name, { pausedAt: engine.now() });
  }

  async resume(tenantId: string, name: string): Promise<DestinationRow> {
    assertDestinationName(name);
    return this.#parts.engine.changeDestination(tenantId, name, { pausedAt: null });
  }

  async configure(
    tenantId: string,
    name: string,
    document: DestinationDocument,
  ): Promise<DestinationRow> {
    assertDestinationName(name);
    const { engine, destinationPolicies } = this.#parts;
    if (resolveDestination(document, "service").hedge !== undefined) throw hedgeRefused(document);
    const text = JSON.stringify(document);
    const row = await engine.changeDestination(tenantId, name, { document: text });
    destinationPolicies.forget(tenantId, name);
    return row;
  }

  /** The health of every destination with a row or a task, or of `only` one. */
  async health(tenantId: string, only?: string): Promise<readonly DestinationHealth[]> {
    const { store, engine } = this.#parts;
    const counts = byDestination(await store.query.count(tenantId));
    const rows = new Map((await store.listDestinations(tenantId)).map((row) => [row.name, row]));
    const names = new Set([...rows.keys(), ...counts.keys()]);
    const wanted = only === undefined ? [...names].sort() : [only].filter((one) => names.has(one));
    const now = engine.now();
    return wanted.map((name) => {
      const row = rows.get(name) ?? blankDestination(tenantId, name);
      return this.#healthOf(row, counts.get(name) ?? [], now);
    });
  }

  #healthOf(row: DestinationRow, counts: readonly TaskCount[], now: number): DestinationHealth {
    const { admission, lanes } = this.#parts.engine.destination(row.tenantId, row.name);
    const dueAts = Object.values(lanes).map(({ dueAt }) => dueAt);
    return healthOfDestination({ row, admission, dueAts, counts, now });
  }

  /** Says in a sentence why the task is not running now. */
  async explain(task: RetryTask): Promise<string> {
    const { store, engine } = this.#parts;
    const { tenantId, destination } = task;
    const stored = await store.getDestination(tenantId, destination);
    const row = stored ?? blankDestination(tenantId, destination);
    const now = engine.now();
    const serviceHold = serviceHoldOf(engine, task, now);
    const facts = await this.#policyFacts(task, now);
    return explainTask(task, this.#healthOf(row, [], now), now, { serviceHold, ...facts });
  }

  /** What the policy says about a task that waits. */
  async #policyFacts(task: RetryTask, now: number): Promise<TaskFacts> {
    if (task.status !== "PENDING") return {};
    const policy = await this.#parts.engine.policies.load(task);
    if (policy === null) return {};
    if (isUnreadable(policy)) return { unreadablePolicy: policy.unreadable };
    const leftMs = remainingMs(policy, requestOf(task), historyOf(task, task.attemptNumber), now);
    return { isOver: leftMs <= 0 };
  }
}
