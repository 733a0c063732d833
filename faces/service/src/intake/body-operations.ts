/** Body operations: stores bodies for tasks, and reads the stored body of a task. */
import type { Readable } from "node:stream";
import type { Bodies, BodySource, StoredBody } from "../bodies/bodies.ts";
import { DEFAULT_TENANT, type RetryTask } from "../model/task.ts";
import type { TaskInput } from "./task-input.ts";
import type { Accepted, TaskIntake } from "./task-intake.ts";

export class BodyOperations {
  readonly #bodies: Bodies;
  readonly #intake: TaskIntake;

  constructor(bodies: Bodies, intake: TaskIntake) {
    this.#bodies = bodies;
    this.#intake = intake;
  }

  /**
   * Stores a body for tasks to come and resolves with its `bodyRef` once it is durable. A body that no
   * task uses within six hours is removed.
   */
  upload(
    source: BodySource,
    tenantId: string = DEFAULT_TENANT,
    signal?: AbortSignal,
  ): Promise<string> {
    return this.#bodies.upload(tenantId, source, signal);
  }

  /** Stores a body for one task, in the blob store only if it is too long for a row. */
  store(
    source: BodySource,
    tenantId: string = DEFAULT_TENANT,
    signal?: AbortSignal,
  ): Promise<StoredBody> {
    return this.#bodies.store(tenantId, source, signal);
  }

  /** Like `enqueue`, with a body that was stored for this task alone. */
  enqueue(
    input: TaskInput,
    stored: StoredBody,
    tenantId: string = DEFAULT_TENANT,
    hops = 0,
  ): Promise<Accepted> {
    return this.#intake.enqueueStored(input, stored, tenantId, hops);
  }

  /** Throws what `enqueue` would throw for this input, before its body is stored. */
  checkInput(input: TaskInput, tenantId: string = DEFAULT_TENANT): Promise<void> {
    return this.#intake.check(input, tenantId);
  }

  /** Throws `BODY_TOO_LARGE` for a body of this many bytes. */
  assertFits(bytes: number): void {
    this.#bodies.assertFits(bytes);
  }

  /** The body of a task that is in the blob store. It fails if the bytes are not those stored. */
  async open(task: Pick<RetryTask, "tenantId" | "bodyRef">): Promise<Readable> {
    return (await this.#bodies.open(task)).stream;
  }
}
