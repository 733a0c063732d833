/**
 * Redrive: the service as a program uses it. The HTTP front is one caller of it, an embedding
 * process another; everything they can do is here, in the terms of one tenant at a time.
 */
import {
  assertKey,
  budgetAllows,
  type Clock,
  type DestinationDocument,
  DocumentError,
  isObject,
  remainingMs,
  resolveDestination,
  resolvePolicy,
} from "@redrive/core";
import type { RefusedTarget, Target } from "./deliver/target.ts";
import type { Engine } from "./engine/engine.ts";
import type { EngineEvent } from "./engine/events/engine-event.ts";
import { historyOf, requestOf } from "./engine/run/settlement.ts";
import { asAsked, DestinationPolicies } from "./intake/destination-policies.ts";
import { type Digest, Policies, type PolicyChoice } from "./intake/policies.ts";
import type { Secrets } from "./intake/secrets.ts";
import { checkInput, fingerprintParts, type TaskInput, taskOf } from "./intake/task-input.ts";
import type { CancelRequest, CreateResult } from "./model/batch.ts";
import { blankDestination, type DestinationRow } from "./model/destination-row.ts";
import { hedgeRefused, serviceError, taskNotFound } from "./model/errors.ts";
import { withHops } from "./model/hop.ts";
import type { NewId } from "./model/ids.ts";
import type { CommitListener, MeteredStore } from "./model/metered-store.ts";
import type { Store } from "./model/store.ts";
import { DEFAULT_TENANT, type NewTask, type RetryTask } from "./model/task.ts";
import type { AttemptPage, Page, TaskCount, TaskFilter, TaskPage } from "./model/task-query.ts";
import { callbackOf } from "./operations/callback.ts";
import {
  byDestination,
  type DestinationHealth,
  healthOfDestination,
} from "./operations/destination-health.ts";
import { explainTask } from "./operations/explain-task.ts";
import { RedriveJobs } from "./operations/redrive-jobs.ts";
import { type RedriveCount, RedriveLetters, type RedriveOf } from "./operations/redrive-letters.ts";
import { endsWithin } from "./time/settles-within.ts";

/** What `createRedrive` joins. */
export interface RedriveParts {
  readonly clock: Clock;
  readonly store: Store;
  readonly engine: Engine;
  readonly newId: NewId;
  readonly digest: Digest;
  readonly secrets: Secrets;
  readonly onCommit: MeteredStore["onCommit"];
  readonly checkTarget: (url: string) => Target | RefusedTarget;
  /** Ends what was opened for this service. */
  readonly close: () => Promise<void>;
}

export interface Accepted {
  readonly taskId: string;
  /** The key was known: this is the task it stands for. */
  readonly replayed: boolean;
}

export interface Cancelled {
  /** CANCELLED, or still IN_FLIGHT: a success of the attempt under way wins. */
  readonly status: "CANCELLED" | "IN_FLIGHT";
  readonly cancelRequestedAt: number | null;
}

/** A store that takes longer to close is left as it is, as a kill would leave it. */
const CLOSING_MS = 5000;

export class Redrive {
  readonly policies: Policies;
  /** Redrives at a pace, kept in the store. */
  readonly jobs: RedriveJobs;
  readonly #destinationPolicies: DestinationPolicies;
  readonly #letters: RedriveLetters;
  readonly #parts: RedriveParts;
  #stopping: Promise<void> | undefined;

  constructor(parts: RedriveParts) {
    const { clock, store, engine, digest } = parts;
    const { documents: notes, exclusive } = store;
    this.#parts = parts;
    this.jobs = new RedriveJobs({ clock, notes, exclusive, nodeId: engine.nodeId, source: this });
    const now = () => engine.now();
    const policies = new Policies(store, engine.policies, digest, now);
    this.policies = policies;
    const create = async (task: NewTask) => (await this.#create(task, null)).kind === "created";
    this.#letters = new RedriveLetters({ ...parts, query: store.query, policies, now, create });
    this.#destinationPolicies = new DestinationPolicies(store, this.policies);
  }

  /** Resolves once the task is durable. `hops`: the Redrives that it has come through. Default: 0. */
  async enqueue(input: TaskInput, tenantId: string = DEFAULT_TENANT, hops = 0): Promise<Accepted> {
    const choice = this.#knownPolicy(input, tenantId) ?? (await this.#policy(input, tenantId));
    try {
      const task = this.#newTask(input, tenantId, choice);
      const policy = this.#parts.engine.policies.get(task);
      if (policy?.requireIdempotencyKey && task.idempotencyKey === null) assertKey(policy, {});
      const { idempotencyKey: key, taskId } = task;
      const { secrets } = this.#parts;
      const fingerprint =
        key === null ? null : secrets.fingerprint(fingerprintParts(asAsked(input, task)));
      const result = await this.#create(secrets.seal(withHops(task, hops)), fingerprint);
      if (result.kind === "created") return { taskId, replayed: false };
      if (result.kind === "replayed") return { taskId: result.taskId, replayed: true };
      throw keyTaken(key);
    } finally {
      this.policies.release(tenantId, choice.policyId);
    }
  }

  /** Each for itself: the results are in the order of the inputs. */
  enqueueMany(
    inputs: readonly TaskInput[],
    tenantId: string = DEFAULT_TENANT,
  ): Promise<readonly PromiseSettledResult<Accepted>[]> {
    return Promise.allSettled(inputs.map((input) => this.enqueue(input, tenantId)));
  }

  #knownPolicy(input: TaskInput, tenantId: string): PolicyChoice | undefined {
    if (!isObject(input) || input.policy !== undefined) return undefined;
    if (input.policyId !== undefined) return this.policies.known(tenantId, input.policyId);
    return this.#destinationPolicies.known(tenantId, this.#destinationOf(input));
  }

  /** Where a task would go; if that cannot be said, the task will be refused for it. */
  #destinationOf({ destination, targetUrl }: TaskInput): string {
    if (destination !== undefined) return destination;
    const target = typeof targetUrl === "string" ? this.#parts.checkTarget(targetUrl) : undefined;
    return target?.ok ? target.origin : "";
  }

  /** The input is checked first, so that nothing is stored for one that will be refused. */
  #policy(input: TaskInput, tenantId: string): Promise<PolicyChoice> {
    const problems = checkInput(input, this.#parts.engine.now());
    if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
    const { policy, policyId } = input;
    if (policyId !== undefined) return this.policies.choose(tenantId, policyId);
    if (policy === undefined) {
      return this.#destinationPolicies.choose(tenantId, this.#destinationOf(input));
    }
    resolvePolicy(policy);
    return this.policies.chooseInline(tenantId, policy);
  }

  #newTask(input: TaskInput, tenantId: string, choice: PolicyChoice): NewTask {
    const { engine, newId, checkTarget } = this.#parts;
    const now = engine.now();
    return taskOf(input, { tenantId, taskId: newId(now), now, ...choice, checkTarget });
  }

  #create(task: NewTask, fingerprint: string | null): Promise<CreateResult> {
    return new Promise((resolve, reject) => {
      this.#parts.engine.create(task, fingerprint, resolve, reject);
    });
  }

  get(taskId: string, tenantId: string = DEFAULT_TENANT): Promise<RetryTask | null> {
    return this.#parts.store.query.get(tenantId, taskId);
  }

  list(
    filter: TaskFilter = {},
    page: Page = { limit: 50 },
    tenantId: string = DEFAULT_TENANT,
  ): Promise<TaskPage> {
    return this.#parts.store.query.list(tenantId, filter, page);
  }

  attempts(
    taskId: string,
    page: Page = { limit: 50 },
    tenantId: string = DEFAULT_TENANT,
  ): Promise<AttemptPage> {
    return this.#parts.store.query.attempts(tenantId, taskId, page);
  }

  count(tenantId: string = DEFAULT_TENANT) {
    return this.#parts.store.query.count(tenantId);
  }

  /** Throws `TASK_STATE_CONFLICT` for a task that ended otherwise, `TASK_NOT_FOUND` for none. */
  async cancel(taskId: string, tenantId: string = DEFAULT_TENANT): Promise<Cancelled> {
    const result = await this.#parts.engine.cancel(await this.#cancelOf(tenantId, taskId));
    switch (result.kind) {
      case "cancelled":
        return { status: "CANCELLED", cancelRequestedAt: null };
      case "requested":
        return { status: "IN_FLIGHT", cancelRequestedAt: result.cancelRequestedAt };
      case "ended":
        throw serviceError("TASK_STATE_CONFLICT", `task ${taskId} has ended ${result.status}`);
      case "unknown":
        throw taskNotFound(taskId);
    }
  }

  /** With the callback that its cancelling is to make: where that goes never changes. */
  async #cancelOf(tenantId: string, taskId: string): Promise<CancelRequest> {
    const task = await this.get(taskId, tenantId);
    if (task === null || task.callbackUrl === null) return { tenantId, taskId };
    const { engine, newId } = this.#parts;
    const now = engine.now();
    const end = { ...task, status: "CANCELLED", reason: "aborted", finishedAt: now } as const;
    return { tenantId, taskId, onEnd: { CANCELLED: callbackOf(task, end, newId(now)) } };
  }

  /** Runs a waiting task now rather than when it is due. It passes no guard. */
  async retryNow(taskId: string, tenantId: string = DEFAULT_TENANT): Promise<void> {
    const result = await this.#parts.engine.retryNow({ tenantId, taskId });
    if (result.kind === "unknown") throw taskNotFound(taskId);
    if (result.kind === "rescheduled") return;
    throw serviceError("TASK_STATE_CONFLICT", `task ${taskId} is ${result.status}, not PENDING`);
  }

  /** Nothing is attempted there until it is resumed; total budgets run on. */
  pause(destination: string, tenantId: string = DEFAULT_TENANT): Promise<DestinationRow> {
    const { engine } = this.#parts;
    return engine.changeDestination(tenantId, destination, { pausedAt: engine.now() });
  }

  resume(destination: string, tenantId: string = DEFAULT_TENANT): Promise<DestinationRow> {
    return this.#parts.engine.changeDestination(tenantId, destination, { pausedAt: null });
  }

  /** Sets a destination's guards and policy; throws `INVALID_DESTINATION` with what is wrong. */
  async configure(
    destination: string,
    document: DestinationDocument,
    tenantId: string = DEFAULT_TENANT,
  ): Promise<DestinationRow> {
    if (resolveDestination(document, "service").hedge !== undefined) throw hedgeRefused(document);
    const text = JSON.stringify(document);
    const { engine } = this.#parts;
    const row = await engine.changeDestination(tenantId, destination, { document: text });
    this.#destinationPolicies.forget(tenantId, destination);
    return row;
  }

  destinations(tenantId: string = DEFAULT_TENANT): Promise<readonly DestinationRow[]> {
    return this.#parts.store.listDestinations(tenantId);
  }

  /** How each destination does that has a document, a guard that acted, or a task; or `only` one. */
  async health(
    tenantId: string = DEFAULT_TENANT,
    only?: string,
  ): Promise<readonly DestinationHealth[]> {
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

  /** Why the task is not running now, in a sentence. */
  async explain(task: RetryTask): Promise<string> {
    const { store, engine } = this.#parts;
    const { tenantId, destination } = task;
    const stored = await store.getDestination(tenantId, destination);
    const row = stored ?? blankDestination(tenantId, destination);
    const now = engine.now();
    const { serviceBudget: wholeBudget } = engine;
    const noRetries = wholeBudget !== undefined && !budgetAllows(wholeBudget, now, false);
    const isOver = await this.#isOver(task, now);
    return explainTask(task, this.#healthOf(row, [], now), now, { noRetries, isOver });
  }

  async #isOver(task: RetryTask, now: number): Promise<boolean> {
    if (task.status !== "PENDING") return false;
    const policy = await this.#parts.engine.policies.load(task);
    if (policy === null) return false;
    return remainingMs(policy, requestOf(task), historyOf(task, task.attemptNumber), now) <= 0;
  }

  /** False once it stops, or its store can no longer be relied on. */
  isRunning(): boolean {
    return this.#parts.engine.isRunning();
  }

  /** Engine time; epoch ms. */
  now(): number {
    return this.#parts.engine.now();
  }

  /** A new id that sorts by age, as tasks have. */
  newId(): string {
    return this.#parts.newId(this.now());
  }

  /** Removes those of the tasks that are dead letters; returns how many. */
  discard(taskIds: readonly string[], tenantId: string = DEFAULT_TENANT): Promise<number> {
    return this.#parts.store.discard(tenantId, taskIds);
  }

  /**
   * Makes a new task of a dead letter; false if it is none, or was redriven before. The new task of
   * a redrive has its mark, by which the redrive knows it again. Throws `UNKNOWN_POLICY` if nothing
   * is left of its policy, `TARGET_DENIED` if the redrive may not send there.
   */
  redriveTask(
    taskId: string,
    tenantId: string = DEFAULT_TENANT,
    redrive?: RedriveOf,
  ): Promise<boolean> {
    return this.#letters.one(taskId, tenantId, redrive);
  }

  /** Makes a new task of every dead letter that matches; each is redriven once. */
  redrive(
    filter: Omit<TaskFilter, "status"> = {},
    tenantId: string = DEFAULT_TENANT,
  ): Promise<RedriveCount> {
    return this.#letters.all(filter, tenantId);
  }

  /** Told of every commit of the store. Returns what ends the listening. */
  onCommit(listener: CommitListener): () => void {
    return this.#parts.onCommit(listener);
  }

  /** Returns what ends the listening. */
  onEvent(listener: (event: EngineEvent) => void): () => void {
    return this.#parts.engine.events.listen(listener);
  }

  /**
   * Claims no more, lets what runs end for at most `graceMs` (30 000), and closes. A store that does
   * not answer is given up a few seconds later. Safe to call twice.
   */
  stop(graceMs = 30_000): Promise<void> {
    this.#stopping ??= this.#stop(graceMs);
    return this.#stopping;
  }

  async #stop(graceMs: number): Promise<void> {
    const { clock, engine, close } = this.#parts;
    const startMs = clock.monotonicMs();
    const jobs = this.jobs.stop();
    const haveEnded = await endsWithin(clock, graceMs, jobs);
    await engine.stop(Math.max(0, graceMs - (clock.monotonicMs() - startMs)));
    const closing = close();
    if (await endsWithin(clock, CLOSING_MS, closing)) await closing;
    // Only now, so that what fails there keeps neither the engine nor the store open.
    if (haveEnded) await jobs;
  }
}

function keyTaken(key: string | null): Error {
  const text = `key ${JSON.stringify(key)} was used with another payload`;
  return serviceError("IDEMPOTENCY_CONFLICT", text);
}
