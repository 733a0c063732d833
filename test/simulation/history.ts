/**
 * History: what an observer who sees everything tells the checkers: every commit the store carried
 * out, every request on the wire, and everything a client was told.
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
import type { MemoryStore } from "../../faces/service/src/stores/memory/memory-store.ts";

export interface Committed {
  readonly at: number;
  readonly batch: Batch;
  readonly result: CommitResult;
  /** The rows of the destinations that were claimed from, as they were before. */
  readonly rowsBefore: ReadonlyMap<string, DestinationRow | undefined>;
  /** Tasks that the batch names, as they were before. */
  readonly tasksBefore: ReadonlyMap<string, RetryTask>;
}

export interface Sent {
  readonly at: number;
  readonly nodeId: string;
  readonly task: StartedTask;
  readonly policy: Policy;
  readonly timeoutMs: number;
  /** The destination's document as the node knows it. */
  readonly document: string | null;
}

/** A checker looks at the history as it is made, and once more at its end. It throws what it finds. */
export interface Checker {
  readonly name: string;
  committed?(event: Committed): void;
  sent?(event: Sent): void;
  /** The attempt ended on this side: answered, timed out or aborted. */
  attemptEnded?(event: Sent, endedAt: number, succeeded: boolean): void;
  /** The node was told of that end. */
  resultReceived?(event: Sent): void;
  /** A node has stopped, and nothing went wrong while it did. */
  nodeStopped?(nodeId: string): void;
  /** An operator was told that this is the row now. */
  destinationChanged?(at: number, row: DestinationRow): void;
  /** A client was told that its task is stored. */
  createAcknowledged?(
    at: number,
    task: RetryTask | undefined,
    key: string | null,
    result: CreateResult,
  ): void;
  /** A client was told what came of its cancel. */
  cancelAcknowledged?(at: number, taskId: string, result: CancelResult): void;
  /** A redrive job said that it is done. */
  redriveDone?(job: RedriveJob, store: MemoryStore): void;
  finished?(store: MemoryStore): void;
}

export class Violation extends Error {
  override readonly name: string = "Violation";
}

export function assertThat(checker: string, holds: boolean, message: () => string): void {
  if (!holds) throw new Violation(`${checker}: ${message()}`);
}
