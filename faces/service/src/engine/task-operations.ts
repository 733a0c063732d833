/** Task operations: creates, cancels and retries single tasks through the commit queue. */
import {
  type CancelRequest,
  type CancelResult,
  type CreateResult,
  EMPTY_BATCH,
  type RetryNowResult,
  type TaskRef,
} from "../model/batch.ts";
import { type DestinationRow, isOpen } from "../model/destination-row.ts";
import { serviceError, stopped } from "../model/errors.ts";
import type { Store } from "../model/store.ts";
import { storeFailure } from "../model/store-wrappers.ts";
import type { NewTask } from "../model/task.ts";
import type { EngineTime } from "../time/engine-time.ts";
import type { CommitQueue } from "./commit-queue.ts";
import type { Destinations } from "./destinations.ts";
import {
  type DocumentReports,
  type EngineEvents,
  eventLabels,
  type WritableEventBody,
} from "./events.ts";
import type { NodeState } from "./node.ts";
import type { Runner } from "./runner.ts";
import type { Scheduler } from "./scheduler.ts";
import { scheduleFollowUps } from "./settlement.ts";

interface TaskOperationsParts {
  readonly time: EngineTime;
  readonly node: NodeState;
  readonly destinations: Destinations;
  readonly scheduler: Scheduler;
  readonly queue: CommitQueue;
  readonly runner: Runner;
  readonly events: EngineEvents;
}

/** The part of a canceled task that its event shows. */
export type CancelledTask = Pick<NewTask, "destination" | "labels">;

export class TaskOperations {
  readonly #parts: TaskOperationsParts;

  constructor(parts: TaskOperationsParts) {
    this.#parts = parts;
  }

  /** Calls `done` once the task is durable, or once the task of the same key is known. */
  create(
    task: NewTask,
    fingerprint: string | null,
    done: (result: CreateResult) => void,
    failed: (error: unknown) => void,
  ): void {
    const { node, destinations, queue } = this.#parts;
    if (!node.isRunning()) {
      failed(stopped());
      return;
    }
    const destination = destinations.getOrCreate(task.tenantId, task.destination);
    destination.users++;
    queue.addCreate({
      create: { task, fingerprint },
      destination,
      done: (result) => {
        destination.users--;
        if (result.kind === "created") this.#emitCreated(task);
        done(result);
      },
      failed: (error) => {
        destination.users--;
        failed(storeFailure(error));
      },
    });
  }

  #emitCreated({ tenantId, taskId, destination, labels, scheduledAt, policyId }: NewTask): void {
    const { time, events } = this.#parts;
    const event: WritableEventBody = { type: "task.created", tenantId, taskId, destination };
    event.policyId = policyId;
    event.nextAttemptAt = scheduledAt;
    const shown = eventLabels(labels);
    if (shown !== undefined) event.labels = shown;
    events.emit(time.now(), event);
  }

  /** `task`: for the event, if it is known. */
  async cancel(request: CancelRequest, task?: CancelledTask): Promise<CancelResult> {
    const { time, scheduler, destinations, queue, runner, events } = this.#parts;
    const commit = () =>
      this.#commit<CancelResult>((done, failed) => queue.addCancel({ request, done, failed }));
    const result = await commit();
    // The task was claimed ahead of time and not sent: recalling its claim ends it, with an event,
    // before the second commit reads its state. If that commit fails, the first result is still
    // true, because the cancel request is stored.
    if (result.kind === "requested" && runner.recallClaim(request)) {
      return commit().catch(() => result);
    }
    if (result.kind === "cancelled") {
      const { tenantId, taskId, onEnd } = request;
      scheduleFollowUps(scheduler, destinations, onEnd, "CANCELLED");
      queue.request();
      const event: WritableEventBody = { type: "task.cancelled", tenantId, taskId };
      if (task !== undefined) event.destination = task.destination;
      const labels = task && eventLabels(task.labels);
      if (labels !== undefined) event.labels = labels;
      events.emit(time.now(), event);
    }
    return result;
  }

  /** Makes a waiting task due now. Guards still apply. Another node finds it by its next read. */
  async retryNow(request: TaskRef): Promise<RetryNowResult> {
    const { time, scheduler, destinations, queue } = this.#parts;
    const result = await this.#commit<RetryNowResult>((done, failed) =>
      queue.addRetryNow({ request, done, failed }),
    );
    if (result.kind === "rescheduled") {
      const destination = destinations.getOrCreate(request.tenantId, result.destination);
      const lane = destination.lanes[result.lane];
      scheduler.expectTask(lane, request.taskId, time.now());
      queue.request();
    }
    return result;
  }

  #commit<Result>(
    add: (done: (result: Result) => void, failed: (error: unknown) => void) => void,
  ): Promise<Result> {
    return new Promise((resolve, reject) => {
      if (!this.#parts.node.isRunning()) return reject(stopped());
      add(resolve, (error) => reject(storeFailure(error)));
    });
  }
}

// Destination changes: writes a user's change to the row of a destination, based on the stored
// version. If another writer is first, the change is repeated on top of the new row.

interface DestinationChangesParts {
  readonly store: Pick<Store, "getDestination" | "commit">;
  readonly time: EngineTime;
  readonly node: NodeState;
  readonly scheduler: Scheduler;
  readonly queue: CommitQueue;
  readonly events: EngineEvents;
  readonly reports: DocumentReports;
  readonly destinations: Destinations;
}

/** The columns that users may change: the pause, the document, and the circuit. */
type ChangedColumns = Partial<
  Pick<DestinationRow, "pausedAt" | "document" | "breakerState" | "openUntil" | "openCount">
>;

/** The new columns, or a function that computes them from the stored row. */
export type DestinationChange = ChangedColumns | ((row: DestinationRow) => ChangedColumns);

/** Nodes write a row when its circuit or gate changes. Losing this often in a row is not chance. */
const MAX_TRIES = 10;

export class DestinationChanges {
  readonly #parts: DestinationChangesParts;

  constructor(parts: DestinationChangesParts) {
    this.#parts = parts;
  }

  /**
   * `reason`: what was changed and by whom, for the event. Throws `DESTINATION_BUSY`, without a change, if
   * another writer was first each time.
   */
  async make(
    tenantId: string,
    name: string,
    change: DestinationChange,
    reason: string,
  ): Promise<DestinationRow> {
    for (let tries = 1; tries <= MAX_TRIES; tries++) {
      const written = await this.#try(tenantId, name, change);
      if (written === null) continue;
      const { events, time } = this.#parts;
      const about = { tenantId, destination: name, reason };
      if (isOpen(written.before) && !isOpen(written.row)) {
        events.emit(time.now(), { type: "breaker.closed", ...about });
      }
      events.emit(time.now(), { type: "destination.changed", ...about });
      return written.row;
    }
    const text = `another writer changed destination ${name} before each of ${MAX_TRIES} tries`;
    throw serviceError("DESTINATION_BUSY", `${text}; try again`);
  }

  /** Null: another writer was first. */
  async #try(tenantId: string, name: string, change: DestinationChange): Promise<Written | null> {
    const { store, time, node, scheduler, queue, reports, destinations } = this.#parts;
    const stored = await store.getDestination(tenantId, name);
    const before = await destinations.load(tenantId, name);
    if (stored !== null) before.adopt(stored, time.now());
    const current = before.row;
    const columns = typeof change === "function" ? change(current) : change;
    const row = { ...current, ...columns, version: current.version + 1 };
    const batch = { now: time.now(), nodeId: node.nodeId, ...EMPTY_BATCH };
    const result = await store.commit({ ...batch, destinations: [{ row }] });
    const winner = result.destinations[0] ?? null;
    // Looked up again, because it may have been dropped as idle meanwhile.
    const destination = destinations.getOrCreate(tenantId, name);
    const now = time.now();
    destination.adopt(winner ?? row, now);
    reports.record(destination.documentName, destination.reading);
    scheduler.unblock(destination, now);
    queue.request();
    return winner === null ? { before: current, row } : null;
  }
}

interface Written {
  readonly before: DestinationRow;
  readonly row: DestinationRow;
}
