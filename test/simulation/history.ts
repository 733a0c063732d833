/**
 * History: the events that the observer reports to the checkers: every commit of the store, every
 * request on the wire, and every result that a client gets.
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

/** A checker sees each event of the history, and its end. It throws a violation. */
export interface Checker {
  readonly name: string;
  committed?(event: Committed): void;
  sent?(event: Sent): void;
  /** The attempt ended: with a response, by its timeout, or aborted. */
  ended?(event: Sent, endedAt: number, succeeded: boolean): void;
  /** The node learned of that end. */
  left?(event: Sent): void;
  /** A node has stopped without a fault. */
  stopped?(nodeId: string): void;
  /** An operator got this row as the result of a change. */
  changed?(at: number, row: DestinationRow): void;
  /** A client learned that its task is stored. */
  created?(at: number, task: RetryTask | undefined, key: string | null, result: CreateResult): void;
  /** A client got the result of its cancel. */
  cancelled?(at: number, taskId: string, result: CancelResult): void;
  /** A redrive job is done. */
  redriveDone?(job: RedriveJob, store: MemoryStore): void;
  finished?(store: MemoryStore): void;
}

export class Violation extends Error {
  override readonly name: string = "Violation";
}

export function assertThat(checker: string, holds: boolean, message: () => string): void {
  if (!holds) throw new Violation(`${checker}: ${message()}`);
}
