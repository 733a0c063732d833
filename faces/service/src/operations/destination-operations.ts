/**
 * Destination operations: pause, resume and configure a destination, report the health of
 * destinations, and explain why a task is not running.
 */
import { DocumentError, remainingMs } from "@redrive/core";
import type { RefusedTarget, Target } from "../deliver/address-guard/target.ts";
import type { LimitChange } from "../engine/destination/limit-history.ts";
import type { Engine } from "../engine/engine.ts";
import { historyOf, requestOf } from "../engine/run/settlement.ts";
import type { DestinationPolicies } from "../intake/destination-policies.ts";
import type { Secrets } from "../intake/secrets.ts";
import { refusal } from "../intake/targets/refused-url.ts";
import type { ServiceDocument } from "../model/delivery/delivery-settings.ts";
import { enableIn } from "../model/delivery/disabled-targets.ts";
import { checkDocument } from "../model/delivery/service-document.ts";
import { assertDestinationName } from "../model/destination-name.ts";
import { blankDestination, type DestinationRow } from "../model/destination-row.ts";
import { GUARD_DOCUMENT } from "../model/document-table.ts";
import { isUnreadable } from "../model/policy-cache.ts";
import type { Store } from "../model/store.ts";
import type { RetryTask } from "../model/task.ts";
import type { Page, StoredDestinationState } from "../model/task-query.ts";
import type { ActivityRecorder } from "./activity/activity-recorder.ts";
import { documentToStore, shownDocument } from "./delivery-document.ts";
import {
  type DestinationHealth,
  type DestinationHealthPage,
  healthOfDestination,
} from "./destination-health.ts";
import { type Explanation, explainTask, type TaskFacts } from "./explain-task.ts";
import { serviceHoldOf } from "./service-hold.ts";

export interface DestinationOperationsParts {
  readonly store: Store;
  readonly engine: Engine;
  readonly destinationPolicies: DestinationPolicies;
  readonly secrets: Secrets;
  readonly checkTarget: (url: string) => Target | RefusedTarget;
  readonly activity: Pick<ActivityRecorder, "recentOf">;
}

/** Destinations per turn of the event loop: about two milliseconds. */
const SLICE = 16;

export class DestinationOperations {
  readonly #parts: DestinationOperationsParts;

  constructor(parts: DestinationOperationsParts) {
    this.#parts = parts;
  }

  async pause(tenantId: string, name: string): Promise<DestinationRow> {
    assertDestinationName(name);
    return this.#change(tenantId, name, { pausedAt: this.#parts.engine.now() });
  }

  async resume(tenantId: string, name: string): Promise<DestinationRow> {
    assertDestinationName(name);
    return this.#change(tenantId, name, { pausedAt: null });
  }

  async configure(
    tenantId: string,
    name: string,
    document: ServiceDocument,
  ): Promise<DestinationRow> {
    assertDestinationName(name);
    const { destinationPolicies, secrets, checkTarget } = this.#parts;
    const problems = checkDocument(document);
    if (problems.length > 0) throw new DocumentError("INVALID_DESTINATION", problems);
    const { deadLetterUrl } = document;
    const forward = deadLetterUrl === undefined ? undefined : checkTarget(deadLetterUrl);
    if (forward?.ok === false) throw refusal(forward, "deadLetterUrl");
    const row = await this.#change(tenantId, name, ({ document: text }) => ({
      document: documentToStore({ ...document }, { tenantId, name, text }, secrets),
    }));
    destinationPolicies.forget(tenantId, name);
    return row;
  }

  /** Sends to this URL again, although it responded 410. Does nothing if it is not disabled. */
  async enableTarget(tenantId: string, name: string, targetUrl: string): Promise<DestinationRow> {
    assertDestinationName(name);
    return this.#change(tenantId, name, ({ document }) =>
      document === null ? {} : { document: enableIn(document, targetUrl) },
    );
  }

  /** The row as a user may see it: with placeholders for signing secrets. */
  async #change(
    tenantId: string,
    name: string,
    change: Parameters<Engine["changeDestination"]>[2],
  ): Promise<DestinationRow> {
    const row = await this.#parts.engine.changeDestination(tenantId, name, change);
    const shown = shownDocument(row.document);
    return { ...row, document: shown && JSON.stringify(shown) };
  }

  /** The health of destinations with a row or a task, by name, in pages. */
  async health(tenantId: string, page: Page): Promise<DestinationHealthPage> {
    const { store, engine } = this.#parts;
    const { destinations: states, cursor } = await store.query.destinations(tenantId, page);
    const guards = await this.#savedGuards(states);
    const destinations: DestinationHealth[] = [];
    for (const [at, state] of states.entries()) {
      if (at > 0 && at % SLICE === 0) await engine.endOfTurn();
      destinations.push(this.#healthOf(state, guards[at] ?? null));
    }
    return { destinations, cursor };
  }

  /** Null if it has neither a row nor a task. */
  async healthOf(tenantId: string, name: string): Promise<DestinationHealth | null> {
    const state = await this.#parts.store.query.destination(tenantId, name);
    if (state === null) return null;
    const [guards = null] = await this.#savedGuards([state]);
    return this.#healthOf(state, guards);
  }

  /** The latest changes of its concurrency limit on this node, the oldest first. */
  limitChanges(tenantId: string, name: string): readonly LimitChange[] {
    return this.#parts.engine.destinations.find(tenantId, name)?.limits.changes ?? [];
  }

  /** The saved guard state of destinations that this node has not loaded. */
  async #savedGuards(
    states: readonly StoredDestinationState[],
  ): Promise<readonly (string | null)[]> {
    const { store, engine } = this.#parts;
    const keys = states.map(({ row: { tenantId, name } }) => ({ tenantId, id: name }));
    const areLoaded = keys.every(({ tenantId, id }) => engine.destinations.find(tenantId, id));
    return areLoaded ? [] : store.documents.getMany(GUARD_DOCUMENT, keys);
  }

  /** Reading its health does not keep a destination in memory. */
  #healthOf(state: StoredDestinationState, guards: string | null): DestinationHealth {
    const { engine, activity } = this.#parts;
    const { tenantId, name } = state.row;
    const { destinations } = engine;
    const destination =
      destinations.find(tenantId, name) ?? destinations.preview(state.row, guards);
    const now = engine.now();
    const held = destination.shardLanes.held(now);
    const recent = activity.recentOf(tenantId, name, now);
    return healthOfDestination(state, destination.admission, now, { held, recent });
  }

  /** Says in a sentence why the task is not running now, and for which guard it waits. */
  async explain(task: RetryTask): Promise<Explanation> {
    const { store, engine } = this.#parts;
    const { tenantId, destination } = task;
    const stored = await store.query.destination(tenantId, destination);
    const row = stored?.row ?? blankDestination(tenantId, destination);
    const state = stored ?? { row, tasks: {}, nextDueAt: null };
    const [guards = null] = await this.#savedGuards([state]);
    const lastAttempt = await this.#lastAttempt(task);
    const now = engine.now();
    const serviceHold = serviceHoldOf(engine, task, now);
    const laneHold = engine.holdOf(task);
    const policyFacts = await this.#policyFacts(task, now);
    const facts = { serviceHold, laneHold, lastAttempt, ...policyFacts };
    return explainTask(task, this.#healthOf(state, guards), now, facts);
  }

  /** It says why a waiting task is not due yet. */
  async #lastAttempt({ status, tenantId, taskId, attemptNumber }: RetryTask) {
    if (status !== "PENDING" || attemptNumber === 0) return null;
    const page = { limit: 1, cursor: String(attemptNumber - 1) };
    const { attempts } = await this.#parts.store.query.attempts(tenantId, taskId, page);
    return attempts[0] ?? null;
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
