/**
 * Dead letter redriver: creates new tasks from dead letters, one or all that match. Each dead
 * letter is redriven once, with its policy version or, if that was removed, the newest one.
 */
import { overridesIn } from "../deliver/deliverer.ts";
import { MESSAGE_ID, messageIdOf } from "../deliver/signing.ts";
import type { Policies, PolicyChoice } from "../intake/policies.ts";
import type { Secrets } from "../intake/secrets.ts";
import { assertKeyTargets } from "../intake/task-intake.ts";
import type { CreateResult } from "../model/batch.ts";
import { serviceError } from "../model/errors.ts";
import type { NewId } from "../model/ids.ts";
import { partitionByteOf } from "../model/partition.ts";
import type { NewTask, RetryTask } from "../model/task.ts";
import type { TaskFilter, TaskPage, TaskQuery } from "../model/task-query.ts";
import {
  markedId,
  REDRIVEN,
  type RedriveJob,
  type Skip,
  type Skips,
  skipOf,
  skippedIn,
  withSkip,
} from "./redrive-job.ts";

export interface RedriveCount {
  readonly redriven: number;
  /** Dead letters that were not redriven; `skips` says why and names the first ones. */
  readonly skipped: number;
  readonly skips: readonly Skips[];
}

interface RedriverParts {
  readonly query: Pick<TaskQuery, "get" | "list">;
  readonly policies: Policies;
  readonly secrets: Secrets;
  readonly newId: NewId;
  readonly now: () => number;
  readonly create: (task: NewTask) => Promise<CreateResult>;
}

/** How often a redrive chooses a policy that is removed before the task is stored. */
const MAX_TRIES = 5;

/** The redrive that a new task belongs to, and the targets that it may send to. */
export type RedriveScope = Pick<RedriveJob, "redriveId" | "targets">;

const PAGE = 100;

const LACKS_KEY =
  "a header of the task cannot be decrypted: its key is not in encryptionKey (REDRIVE_ENCRYPTION_KEY) of this node";

export class DeadLetterRedriver {
  readonly #parts: RedriverParts;

  constructor(parts: RedriverParts) {
    this.#parts = parts;
  }

  /**
   * False if it is not a dead letter, or was already redriven. Throws `UNKNOWN_POLICY` if its
   * policy was removed, `TARGET_DENIED` if the redrive may not send to its target or callback, and
   * `SECRET_UNAVAILABLE` if this node cannot decrypt its headers.
   */
  async redriveOne(taskId: string, tenantId: string, redrive?: RedriveScope): Promise<boolean> {
    const { query, secrets, newId } = this.#parts;
    const source = await query.get(tenantId, taskId);
    if (source?.status !== "EXHAUSTED" || source.redrivenTo !== null) return false;
    assertKeyTargets(redrive?.targets ?? undefined, [source.targetUrl, source.callbackUrl]);
    const now = this.#parts.now();
    // In the partition of its source: both are written together.
    const id = newId(now, partitionByteOf(taskId));
    const marked = redrive ? markedId(id, redrive.redriveId, taskId) : id;
    const opened = secrets.open(source);
    // A secret is bound to its task: it could never be decrypted in the new one.
    if (opened === null) throw serviceError("SECRET_UNAVAILABLE", LACKS_KEY);
    const sentKey = overridesIn(opened.headers).idempotencyKey;
    const task = redrivenTask(opened, sentKey, marked, now);
    return this.#create(task, source);
  }

  /** The policy may be removed after it was chosen; then it is chosen again. */
  async #create(task: NewTask, source: PolicyChoice): Promise<boolean> {
    const { policies, secrets, create } = this.#parts;
    const { tenantId } = task;
    for (let tries = 1; ; tries++) {
      const choice = await policies.rechoose(tenantId, source);
      const { kind } = await create(secrets.seal({ ...task, ...choice }));
      if (kind !== "unknown-policy" || tries === MAX_TRIES) return kind === "created";
      policies.forget(tenantId, choice.policyId);
    }
  }

  async redriveAll(filter: Omit<TaskFilter, "status">, tenantId: string): Promise<RedriveCount> {
    const dead = { ...filter, status: "EXHAUSTED" } as const;
    let cursor: string | null | undefined;
    let redriven = 0;
    let skips: readonly Skips[] = [];
    while (cursor !== null) {
      const page: TaskPage = await this.#parts.query.list(tenantId, dead, {
        limit: PAGE,
        ...(cursor !== undefined && { cursor }),
      });
      const ids = page.tasks.map(({ taskId }) => taskId);
      const results = await Promise.all(ids.map((taskId) => this.#tried(taskId, tenantId)));
      for (const [at, skip] of results.entries()) {
        if (skip === undefined) redriven++;
        else skips = withSkip(skips, skip, ids[at] ?? "");
      }
      cursor = page.cursor;
    }
    return { redriven, skipped: skippedIn(skips), skips };
  }

  /** Why it was skipped; undefined: it was redriven. */
  async #tried(taskId: string, tenantId: string): Promise<Skip | undefined> {
    try {
      return (await this.redriveOne(taskId, tenantId)) ? undefined : REDRIVEN;
    } catch (error) {
      const skip = skipOf(error);
      if (skip === undefined) throw error;
      return skip;
    }
  }
}

// Redriven task: the new task that is created from a dead letter.

/**
 * Uses the key and the message id of its source, so that the target can deduplicate; it has no row in the
 * key table.
 */
export function redrivenTask(
  source: RetryTask,
  sentKey: string | undefined,
  taskId: string,
  now: number,
): NewTask {
  return {
    ...source,
    taskId,
    headers: { ...source.headers, [MESSAGE_ID]: messageIdOf(source) },
    idempotencyKey: source.idempotencyKey ?? sentKey ?? source.taskId,
    deadlineAt: null,
    createdAt: now,
    scheduledAt: now,
    redrivenFrom: source.taskId,
  };
}
