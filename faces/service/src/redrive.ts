/**
 * Redrive: the API of the service for programs. The HTTP server calls it, and so does a process that
 * embeds the service. Every operation is here, for one tenant at a time.
 */
import type { Clock } from "@redrive/core";
import type { Bodies } from "./bodies/bodies.ts";
import type { RefusedTarget, Target } from "./deliver/target.ts";
import type { LimitChange } from "./engine/destination-runtime.ts";
import { type Engine, STOP_GRACE_MS } from "./engine/engine.ts";
import type { EngineEvents, EventListener, UnreadableDocument } from "./engine/events.ts";
import { isHeldByPolicy } from "./engine/runner.ts";
import { DestinationPolicies, type Digest, Policies } from "./intake/policies.ts";
import { type FleetKeys, keysOfFleet, type Secrets } from "./intake/secrets.ts";
import type { TaskInput } from "./intake/task-input.ts";
import {
  type Accepted,
  BodyOperations,
  type EnqueueOptions,
  TaskIntake,
} from "./intake/task-intake.ts";
import type { ServiceDocument } from "./model/delivery/delivery-settings.ts";
import type { DestinationRow } from "./model/destination-row.ts";
import { serviceError, taskNotFound } from "./model/errors.ts";
import type { CommitListener, CommitMeter } from "./model/guarded-store.ts";
import { assertIds, type NewId } from "./model/ids.ts";
import type { Store, Upkeep } from "./model/store.ts";
import { DEFAULT_TENANT, type NewTask, type RetryTask } from "./model/task.ts";
import type {
  AttemptPage,
  DestinationCounts,
  Page,
  TaskCounts,
  TaskFilter,
  TaskPage,
  TaskQuery,
} from "./model/task-query.ts";
import { ActivityRecorder } from "./operations/activity.ts";
import { type Alerts, type ResolvedAlerts, startAlerts } from "./operations/alerts.ts";
import {
  DeadLetterRedriver,
  type RedriveCount,
  type RedriveScope,
} from "./operations/dead-letter-redriver.ts";
import type { DestinationHealth, DestinationHealthPage } from "./operations/destination-health.ts";
import { DestinationOperations } from "./operations/destination-operations.ts";
import type { Explanation } from "./operations/explain-task.ts";
import { cancelRequestOf } from "./operations/follow-ups.ts";
import { attemptsWithWaits } from "./operations/planned-waits.ts";
import { RedriveJobs } from "./operations/redrive-jobs.ts";
import { settlesWithin } from "./time/deadline-timer.ts";
import type { ClockStatus } from "./time/engine-time.ts";

/** What `createRedrive` connects. */
export interface RedriveParts {
  readonly clock: Clock;
  readonly store: Store;
  readonly engine: Engine;
  readonly newId: NewId;
  readonly digest: Digest;
  readonly secrets: Secrets;
  readonly bodies: Bodies;
  readonly onCommit: CommitMeter["onCommit"];
  readonly checkTarget: (url: string) => Target | RefusedTarget;
  /** Undefined: no alerts. */
  readonly alerts?: ResolvedAlerts | undefined;
  /** Closes everything that was opened for this service. */
  readonly close: () => Promise<void>;
}

export interface EncryptionStatus extends FleetKeys {
  /** The ids of the keys of this node, the current one first. Empty: secrets are not encrypted. */
  readonly keys: readonly string[];
}

export interface Cancelled {
  /** CANCELLED, or still IN_FLIGHT: a success of the running attempt wins. */
  readonly status: "CANCELLED" | "IN_FLIGHT";
  readonly cancelRequestedAt: number | null;
}

/** A store that takes longer to close is abandoned, as if the process had been killed. */
const CLOSE_TIMEOUT_MS = 5000;

/** A redrive watches at most this many open circuits. */
const MAX_CIRCUITS = 1000;

export class Redrive {
  readonly policies: Policies;
  /** Bodies in the blob store. */
  readonly bodies: BodyOperations;
  /** Paced redrives, which are kept in the store. */
  readonly jobs: RedriveJobs;
  /** The last hour per minute, once it is started. */
  readonly activity: ActivityRecorder;
  /** Undefined: none are configured. */
  readonly alerts: Alerts | undefined;
  readonly #intake: TaskIntake;
  readonly #destinations: DestinationOperations;
  readonly #deadLetters: DeadLetterRedriver;
  readonly #parts: RedriveParts;
  #fleetKeys:
    | {
        readonly nodes: readonly string[];
        readonly keys: FleetKeys;
        readonly areAnnounced: boolean;
      }
    | undefined;
  #stopping: Promise<void> | undefined;

  constructor(parts: RedriveParts) {
    const { clock, store, engine, digest } = parts;
    const { documents, exclusive } = store;
    this.#parts = parts;
    this.jobs = new RedriveJobs({
      clock,
      documents,
      exclusive,
      nodeId: engine.nodeId,
      report: (name, reading) => engine.reports.record(name, reading),
      source: this,
    });
    const now = () => engine.now();
    this.activity = new ActivityRecorder({ clock, store, engine });
    const onReplaced = (tenantId: string, policyId: string) => {
      const failed = (error: unknown) => engine.recordStoreFailure(error);
      resumeHeldTasks(store.query, engine, { tenantId, policyId }).catch(failed);
    };
    const policies = new Policies({ store, book: engine.policies, digest, now, onReplaced });
    this.policies = policies;
    engine.addMaintenance(() => policies.removeUnused());
    const destinationPolicies = new DestinationPolicies(store, policies, now);
    const intake = new TaskIntake({ ...parts, policies, destinationPolicies });
    const create = (task: NewTask) => intake.create(task, null);
    this.#intake = intake;
    this.bodies = new BodyOperations(parts.bodies, intake);
    this.#deadLetters = new DeadLetterRedriver({
      ...parts,
      query: store.query,
      policies,
      now,
      create,
    });
    const { activity } = this;
    this.#destinations = new DestinationOperations({ ...parts, destinationPolicies, activity });
    this.alerts = parts.alerts && startAlerts(parts.alerts, parts, intake);
  }

  /**
   * Resolves once the task is durable. With `{ tx }` it is written in that transaction instead, and
   * exists if and only if the caller commits. A string is a tenant. `hops`: the number of Redrive
   * services that the task has passed through. Default: 0.
   */
  enqueue(
    input: TaskInput,
    options: string | EnqueueOptions = DEFAULT_TENANT,
    hops = 0,
  ): Promise<Accepted> {
    return this.#intake.enqueue(input, options, hops);
  }

  /** The inputs are independent of each other. The results have the order of the inputs. */
  enqueueMany(
    inputs: readonly TaskInput[],
    tenantId: string = DEFAULT_TENANT,
  ): Promise<readonly PromiseSettledResult<Accepted>[]> {
    return Promise.allSettled(inputs.map((input) => this.enqueue(input, tenantId)));
  }

  /** Null if there is none. Here and elsewhere, an id that is not a string is `INVALID_ARGUMENT`. */
  async get(taskId: string, tenantId: string = DEFAULT_TENANT): Promise<RetryTask | null> {
    assertIds({ taskId, tenantId });
    return this.#parts.store.query.get(tenantId, taskId);
  }

  /**
   * One page, newest first. It may be short or empty although more tasks match; only a null cursor
   * ends the list. If the page's signal is aborted, it rejects with the signal's reason.
   */
  list(
    filter: TaskFilter = {},
    page: Page = { limit: 50 },
    tenantId: string = DEFAULT_TENANT,
  ): Promise<TaskPage> {
    return this.#parts.store.query.list(tenantId, filter, page);
  }

  /** The read side of the store, for each tenant. */
  get query(): TaskQuery {
    return this.#parts.store.query;
  }

  /** Oldest first, with the waits before each. */
  async attempts(
    taskId: string,
    page: Page = { limit: 50 },
    tenantId: string = DEFAULT_TENANT,
  ): Promise<AttemptPage> {
    assertIds({ taskId, tenantId });
    return attemptsWithWaits(this.#parts.store.query, tenantId, taskId, page);
  }

  /** The number of tasks by status, without zeros. */
  count(tenantId: string = DEFAULT_TENANT): Promise<TaskCounts> {
    return this.#parts.store.query.count(tenantId);
  }

  /** When the oldest task that has not ended was created; null: none waits or is in flight. */
  oldestOpen(tenantId: string = DEFAULT_TENANT): Promise<number | null> {
    return this.#parts.store.query.oldestOpen(tenantId);
  }

  /** Throws `TASK_STATE_CONFLICT` for a task that has already ended, `TASK_NOT_FOUND` for none. */
  async cancel(taskId: string, tenantId: string = DEFAULT_TENANT): Promise<Cancelled> {
    const task = await this.get(taskId, tenantId);
    const request = cancelRequestOf(this.#parts, { tenantId, taskId }, task);
    const result = await this.#parts.engine.cancel(request, task ?? undefined);
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

  /** Makes a waiting task due now. Guards still apply. */
  async retryNow(taskId: string, tenantId: string = DEFAULT_TENANT): Promise<void> {
    assertIds({ taskId, tenantId });
    const result = await this.#parts.engine.retryNow({ tenantId, taskId });
    if (result.kind === "unknown") throw taskNotFound(taskId);
    if (result.kind === "rescheduled") return;
    throw serviceError("TASK_STATE_CONFLICT", `task ${taskId} is ${result.status}, not PENDING`);
  }

  /**
   * Attempts nothing there until `resume`. The total budgets of waiting tasks continue to run. `by`, here and
   * below: who changes it, for the log.
   */
  pause(
    destination: string,
    tenantId: string = DEFAULT_TENANT,
    by?: string,
  ): Promise<DestinationRow> {
    return this.#destinations.pause(tenantId, destination, by);
  }

  resume(
    destination: string,
    tenantId: string = DEFAULT_TENANT,
    by?: string,
  ): Promise<DestinationRow> {
    return this.#destinations.resume(tenantId, destination, by);
  }

  /** Closes an open breaker: the destination gets calls again, slowly at first. */
  closeBreaker(
    destination: string,
    tenantId: string = DEFAULT_TENANT,
    by?: string,
  ): Promise<DestinationRow> {
    return this.#destinations.closeBreaker(tenantId, destination, by);
  }

  /** Lets an open breaker send the next due task as a probe now. */
  probe(
    destination: string,
    tenantId: string = DEFAULT_TENANT,
    by?: string,
  ): Promise<DestinationRow> {
    return this.#destinations.probe(tenantId, destination, by);
  }

  /** Sets the guards and the policy of a destination. Throws `INVALID_DESTINATION` if invalid. */
  configure(
    destination: string,
    document: ServiceDocument,
    tenantId: string = DEFAULT_TENANT,
    by?: string,
  ): Promise<DestinationRow> {
    return this.#destinations.configure(tenantId, destination, document, by);
  }

  /** Sends to a target URL again that a 410 response has disabled. */
  enableTarget(
    destination: string,
    targetUrl: string,
    tenantId: string = DEFAULT_TENANT,
    by?: string,
  ): Promise<DestinationRow> {
    return this.#destinations.enableTarget(tenantId, destination, targetUrl, by);
  }

  /** The rows of destinations whose circuit is not closed, at most a thousand. */
  openCircuits(tenantId: string = DEFAULT_TENANT): Promise<readonly DestinationRow[]> {
    return this.#parts.store.openCircuits(tenantId, MAX_CIRCUITS);
  }

  /** The row of a destination; null: it has none. */
  destinationRow(name: string, tenantId: string = DEFAULT_TENANT): Promise<DestinationRow | null> {
    return this.#parts.store.getDestination(tenantId, name);
  }

  /** What slows the database of the store down over time; null if the store has nothing to report. */
  async storeUpkeep(): Promise<Upkeep | null> {
    return (await this.#parts.store.upkeep?.()) ?? null;
  }

  countDestinations(tenantId: string = DEFAULT_TENANT): Promise<DestinationCounts> {
    return this.#parts.store.query.countDestinations(tenantId);
  }

  /**
   * The health of destinations with a document, an active guard or a task, by name. A page may be
   * short; the cursor is null on the last one.
   */
  health(
    page: Page = { limit: 50 },
    tenantId: string = DEFAULT_TENANT,
  ): Promise<DestinationHealthPage> {
    return this.#destinations.health(tenantId, page);
  }

  /** The health of one destination; null if it does not exist. */
  healthOf(
    destination: string,
    tenantId: string = DEFAULT_TENANT,
  ): Promise<DestinationHealth | null> {
    return this.#destinations.healthOf(tenantId, destination);
  }

  /** The latest changes of its concurrency limit on this node, the oldest first. */
  limitChanges(name: string, tenantId: string = DEFAULT_TENANT): readonly LimitChange[] {
    return this.#destinations.limitChanges(tenantId, name);
  }

  /** Says in a sentence why the task is not running now. */
  async explain(task: RetryTask): Promise<string> {
    return (await this.#destinations.explain(task)).text;
  }

  /** The same, and the wait itself; null: the task is running or has ended, or nothing holds it. */
  explainWait(task: RetryTask): Promise<Explanation> {
    return this.#destinations.explain(task);
  }

  /** False once the service stops, or its store can no longer be trusted. */
  isRunning(): boolean {
    return this.#parts.engine.isRunning();
  }

  /** False: its last commits have failed for some seconds. It keeps trying. */
  canCommit(): boolean {
    return this.#parts.engine.canCommit();
  }

  /** Engine time; epoch ms. */
  now(): number {
    return this.#parts.engine.now();
  }

  /** How long the oldest task is late that waits on this node although no guard holds it; 0: none is. */
  lateMs(): number {
    const { engine } = this.#parts;
    return Math.max(0, engine.now() - engine.destinations.oldestDueAt);
  }

  /** How the time of the service relates to the machine's clock. */
  clock(): ClockStatus {
    return this.#parts.engine.clock();
  }

  /** The keys of this node, and how many nodes of the fleet have each of their keys. */
  async encryption(): Promise<EncryptionStatus> {
    const { store, engine, secrets } = this.#parts;
    const { keyIds: keys } = secrets;
    const own = { nodes: 1, nodesWith: Object.fromEntries(keys.map((id) => [id, 1])) };
    return { keys, ...(store.exclusive ? own : await this.#keysOfFleet(engine.nodes())) };
  }

  /** Readiness is asked often: the keys of the same nodes are read once. */
  async #keysOfFleet(nodes: readonly string[]): Promise<FleetKeys> {
    const known = this.#fleetKeys;
    if (known?.nodes === nodes && known.areAnnounced) return known.keys;
    const keys = await keysOfFleet(this.#parts.store.documents, nodes);
    // A node has joined the fleet before it announces its keys.
    const areAnnounced = nodes.length === Math.max(0, ...Object.values(keys.nodesWith));
    this.#fleetKeys = { nodes, keys, areAnnounced };
    return keys;
  }

  /** The stored documents that this version cannot read, so that the tasks that use them are held. */
  unreadableDocuments(): readonly UnreadableDocument[] {
    return this.#parts.engine.reports.unreadable();
  }

  /** A new id that sorts by age, like the ids of tasks. */
  newId(): string {
    return this.#parts.newId(this.now());
  }

  /** Removes the dead letters among the given tasks; returns how many. */
  async discard(taskIds: readonly string[], tenantId: string = DEFAULT_TENANT): Promise<number> {
    for (const taskId of taskIds) assertIds({ taskId, tenantId });
    return this.#parts.store.discard(tenantId, taskIds);
  }

  /**
   * Creates a new task from a dead letter. False if the task is not a dead letter or was redriven
   * before. With `redrive`, the id of the new task contains the redrive's mark, by which the redrive
   * recognizes it. Throws `UNKNOWN_POLICY` if the policy no longer exists, and `TARGET_DENIED` if
   * the redrive may not send there.
   */
  async redriveTask(
    taskId: string,
    tenantId: string = DEFAULT_TENANT,
    redrive?: RedriveScope,
  ): Promise<boolean> {
    assertIds({ taskId, tenantId });
    return this.#deadLetters.redriveOne(taskId, tenantId, redrive);
  }

  /** Creates a new task from every dead letter that matches. Each is redriven once. */
  redrive(
    filter: Omit<TaskFilter, "status"> = {},
    tenantId: string = DEFAULT_TENANT,
  ): Promise<RedriveCount> {
    return this.#deadLetters.redriveAll(filter, tenantId);
  }

  /** Calls the listener after every commit of the store. Returns a function that removes it. */
  onCommit(listener: CommitListener): () => void {
    return this.#parts.onCommit(listener);
  }

  /**
   * Returns a function that removes the listener. An error of the listener goes to the console.
   */
  onEvent(listener: EventListener): () => void {
    return this.#parts.engine.events.listen(listener);
  }

  /** The latest events, for readers that continue where they stopped. */
  get events(): EngineEvents {
    return this.#parts.engine.events;
  }

  /**
   * Claims nothing more, waits at most `graceMs` for running attempts, and closes. Default: 35 s. A store
   * that does not respond is abandoned a few seconds later. Safe to call twice.
   */
  stop(graceMs = STOP_GRACE_MS): Promise<void> {
    this.#stopping ??= this.#stop(graceMs);
    return this.#stopping;
  }

  async #stop(graceMs: number): Promise<void> {
    const { clock, engine, close } = this.#parts;
    const startMs = clock.monotonicMs();
    this.alerts?.stop();
    const jobs = this.jobs.stop();
    const haveEnded = await settlesWithin(clock, graceMs, jobs);
    await engine.stop(Math.max(0, graceMs - (clock.monotonicMs() - startMs)));
    await settlesWithin(clock, CLOSE_TIMEOUT_MS, this.activity.stop());
    const closing = close();
    if (await settlesWithin(clock, CLOSE_TIMEOUT_MS, closing)) await closing;
    // Awaited last, so that a failure of a job keeps neither the engine nor the store open.
    if (haveEnded) await jobs;
  }
}

// Held tasks: makes the tasks of a policy due that waited because the policy could not be read.

const PAGE_SIZE = 250;

/** One page at a time. Resolves when all are due; guards still apply. */
async function resumeHeldTasks(
  query: TaskQuery,
  engine: Pick<Engine, "retryNow">,
  { tenantId, policyId }: { readonly tenantId: string; readonly policyId: string },
): Promise<void> {
  const filter = { status: "PENDING", policyId } as const;
  let cursor: string | null = null;
  do {
    const page = { limit: PAGE_SIZE, ...(cursor !== null && { cursor }) };
    const found = await query.list(tenantId, filter, page);
    const held = found.tasks.filter(isHeldByPolicy);
    await Promise.all(held.map(({ taskId }) => engine.retryNow({ tenantId, taskId })));
    cursor = found.cursor;
  } while (cursor !== null);
}
