/**
 * History: the events that the checkers receive from an observer that sees every commit of the
 * store, every request on the wire, and every result that a client receives.
 */
import type { Policy } from "@redrive/core";
import type {
  Batch,
  CancelResult,
  CommitResult,
  CreateResult,
  StartedTask,
} from "../../faces/service/src/model/batch.ts";
import type { DestinationRow } from "../../faces/service/src/model/destination-row.ts";
import type { RetryTask } from "../../faces/service/src/model/task.ts";
import type { RedriveJob } from "../../faces/service/src/operations/redrive-job.ts";
import type { MemoryStore, TaskParts } from "../../faces/service/src/stores/memory/memory-store.ts";

export interface Committed {
  readonly at: number;
  readonly batch: Batch;
  readonly result: CommitResult;
  /** The rows of the destinations in the batch, before the commit. */
  readonly rowsBefore: ReadonlyMap<string, DestinationRow | undefined>;
  /** The tasks that the batch names, before the commit. */
  readonly tasksBefore: ReadonlyMap<string, TaskParts>;
}

export interface Sent {
  readonly at: number;
  /** Engine time of the node. */
  readonly nodeAt: number;
  readonly nodeId: string;
  readonly task: StartedTask;
  readonly policy: Policy;
  readonly timeoutMs: number;
  /** How long the machine of the node has slept. Its time is behind by at most this much. */
  readonly sleptMs: number;
  /** The destination's document that the node has. */
  readonly document: string | null;
}

/** Checks each event, and the final state at the end. A checker throws what it finds. */
export interface Checker {
  readonly name: string;
  committed?(event: Committed): void;
  sent?(event: Sent): void;
  /** The attempt ended at the network: with a response, a timeout or an abort. */
  attemptEnded?(event: Sent, endedAt: number, succeeded: boolean): void;
  /** The node received the attempt's result. */
  resultReceived?(event: Sent): void;
  /** A node stopped, without a fault or a pause during the stop. */
  nodeStopped?(nodeId: string): void;
  /** An operator received this row as the result of a change. */
  destinationChanged?(at: number, row: DestinationRow): void;
  /**
   * A client received the result of its create. `task`: as it is stored now; undefined if it is not,
   * because retention has removed it since, or nothing was created.
   */
  createAcknowledged?(
    taskId: string,
    task: RetryTask | undefined,
    key: string | null,
    result: CreateResult,
  ): void;
  /** A client received the result of its cancel. */
  cancelAcknowledged?(at: number, taskId: string, result: CancelResult): void;
  /** A redrive job reported that it is done. */
  redriveDone?(job: RedriveJob, store: MemoryStore): void;
  finished?(store: MemoryStore): void;
}

export type CheckedEvent = Exclude<keyof Checker, "name">;

export class Violation extends Error {
  override readonly name: string = "Violation";
}

export function assertThat(checker: string, holds: boolean, message: () => string): void {
  if (!holds) throw new Violation(`${checker}: ${message()}`);
}
