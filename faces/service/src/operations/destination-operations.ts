/**
 * Destination operations: pause, resume and configure a destination, report the health of
 * destinations, and explain why a task is not running.
 */
import { DocumentError, remainingMs } from "@redrive/core";
import type { RefusedTarget, Target } from "../deliver/target.ts";
import type { LimitChange } from "../engine/destination-runtime.ts";
import type { Engine } from "../engine/engine.ts";
import { heldLanes } from "../engine/lanes.ts";
import { historyOf, requestOf } from "../engine/settlement.ts";
import { originOf } from "../engine/slots.ts";
import type { DestinationPolicies } from "../intake/policies.ts";
import type { Secrets } from "../intake/secrets.ts";
import { refusal } from "../intake/task-input.ts";
import type { ServiceDocument } from "../model/delivery/delivery-settings.ts";
import { enableIn } from "../model/delivery/disabled-targets.ts";
import { checkDocument } from "../model/delivery/service-document.ts";
import {
  assertDestinationName,
  blankDestination,
  type DestinationRow,
  isOpen,
} from "../model/destination-row.ts";
import { GUARD_DOCUMENT } from "../model/document-table.ts";
import { isUnreadable } from "../model/policy-cache.ts";
import type { Store } from "../model/store.ts";
import type { RetryTask } from "../model/task.ts";
import type { Page, StoredDestinationState } from "../model/task-query.ts";
import type { ActivityRecorder } from "./activity.ts";
import {
  type DestinationHealth,
  type DestinationHealthPage,
  documentToStore,
  healthOfDestination,
  shownDocument,
} from "./destination-health.ts";
import { type Explanation, explainTask, type TaskFacts } from "./explain-task.ts";

interface DestinationOperationsParts {
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

  async pause(tenantId: string, name: string, by?: string): Promise<DestinationRow> {
    assertDestinationName(name);
    return this.#change(
      tenantId,
      name,
      { pausedAt: this.#parts.engine.now() },
      `it was paused${byText(by)}`,
    );
  }

  async resume(tenantId: string, name: string, by?: string): Promise<DestinationRow> {
    assertDestinationName(name);
    return this.#change(tenantId, name, { pausedAt: null }, `it was resumed${byText(by)}`);
  }

  /** Sends again, slowly at first. Changes nothing unless the breaker is open. */
  async closeBreaker(tenantId: string, name: string, by?: string): Promise<DestinationRow> {
    assertDestinationName(name);
    const closed = { breakerState: "CLOSED", openUntil: 0, openCount: 0 } as const;
    const change = (row: DestinationRow) => (isOpen(row) ? closed : {});
    return this.#change(tenantId, name, change, `the breaker was closed${byText(by)}`);
  }

  /** The next due task is sent as a probe now. Changes nothing unless the breaker is open. */
  async probe(tenantId: string, name: string, by?: string): Promise<DestinationRow> {
    assertDestinationName(name);
    const openUntil = this.#parts.engine.now();
    const change = (row: DestinationRow) => (isOpen(row) ? { openUntil } : {});
    return this.#change(tenantId, name, change, `the breaker may send a probe${byText(by)}`);
  }

  async configure(
    tenantId: string,
    name: string,
    document: ServiceDocument,
    by?: string,
  ): Promise<DestinationRow> {
    assertDestinationName(name);
    const { destinationPolicies, secrets, checkTarget } = this.#parts;
    const problems = checkDocument(document);
    if (problems.length > 0) throw new DocumentError("INVALID_DESTINATION", problems);
    await destinationPolicies.assertKnown(tenantId, document);
    const { deadLetterUrl } = document;
    const forward = deadLetterUrl === undefined ? undefined : checkTarget(deadLetterUrl);
    if (forward?.ok === false) throw refusal(forward, "deadLetterUrl");
    const change = ({ document: text }: DestinationRow) => ({
      document: documentToStore({ ...document }, { tenantId, name, text }, secrets),
    });
    const row = await this.#change(
      tenantId,
      name,
      change,
      `its document was replaced${byText(by)}`,
    );
    destinationPolicies.forget(tenantId, name);
    return row;
  }

  /** Sends to this URL again, although it responded 410. Does nothing if it is not disabled. */
  async enableTarget(
    tenantId: string,
    name: string,
    targetUrl: string,
    by?: string,
  ): Promise<DestinationRow> {
    assertDestinationName(name);
    const change = ({ document }: DestinationRow) =>
      document === null ? {} : { document: enableIn(document, targetUrl) };
    return this.#change(tenantId, name, change, `a target was enabled${byText(by)}`);
  }

  /** The row as a user may see it: with placeholders for signing secrets. */
  async #change(
    tenantId: string,
    name: string,
    change: Parameters<Engine["changeDestination"]>[2],
    reason: string,
  ): Promise<DestinationRow> {
    const row = await this.#parts.engine.changeDestination(tenantId, name, change, reason);
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
    const held = heldLanes(destination.lanes, now);
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

/** For the event of a change, which the log keeps. */
function byText(by: string | undefined): string {
  return by === undefined ? "" : ` by ${by}`;
}

// Service hold: names the limit of the whole service, if any, that holds a waiting task now.

/** A clause; undefined: no such limit holds the task. */
function serviceHoldOf(engine: Engine, task: RetryTask, now: number): string | undefined {
  return budgetHold(engine, task, now) ?? slotHold(engine, task, now);
}

function budgetHold(
  { serviceBudget }: Engine,
  { tenantId, attemptNumber }: RetryTask,
  now: number,
): string | undefined {
  const isHeld = attemptNumber > 0 && serviceBudget?.allows(tenantId, now, false) === false;
  return isHeld ? "the tenant has used its share of the service's retry budget" : undefined;
}

function slotHold(
  { attemptSlots }: Engine,
  { tenantId, targetUrl }: RetryTask,
  now: number,
): string | undefined {
  const origin = originOf(targetUrl);
  switch (attemptSlots.limitOf({ tenantId, origin }, now)) {
    case "node":
      return "the node runs as many attempts as it may run at once for the tenant";
    case "origin":
      return `the node runs as many attempts to ${origin} as it may run at once for the tenant`;
    case "shortage":
      return "the node lacks files, memory or ports, and waits for a moment";
    case undefined:
      return undefined;
  }
}
