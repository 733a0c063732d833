/**
 * Redrive letters: makes new tasks of dead letters, one or all that match, each once, under the
 * policy that it had or the newest version of that.
 */

import { overridesIn } from "../deliver/request-headers.ts";
import { assertKeyTargets } from "../intake/key-targets.ts";
import type { Policies } from "../intake/policies.ts";
import type { Secrets } from "../intake/secrets.ts";
import type { NewId } from "../model/ids.ts";
import type { NewTask } from "../model/task.ts";
import type { TaskFilter, TaskPage, TaskQuery } from "../model/task-query.ts";
import { markOf, type RedriveJob } from "./redrive-job.ts";
import { redrivenTask } from "./redriven-task.ts";
import { REDRIVEN, type Skip, type Skips, skipOf, skippedIn, withSkip } from "./skips.ts";

export interface RedriveCount {
  readonly redriven: number;
  /** Left as they are; `skips` says why, and names the first. */
  readonly skipped: number;
  readonly skips: readonly Skips[];
}

export interface RedriverParts {
  readonly query: Pick<TaskQuery, "get" | "list">;
  readonly policies: Policies;
  readonly secrets: Secrets;
  readonly newId: NewId;
  readonly now: () => number;
  /** False: its source was redriven before. */
  readonly create: (task: NewTask) => Promise<boolean>;
}

/** The redrive that a new task is of: its mark, and where it may send. */
export type RedriveScope = Pick<RedriveJob, "redriveId" | "targets">;

const PAGE = 100;

export class DeadLetterRedriver {
  readonly #parts: RedriverParts;

  constructor(parts: RedriverParts) {
    this.#parts = parts;
  }

  /**
   * False if it is no dead letter, or was redriven before. Throws `UNKNOWN_POLICY` if nothing is left
   * of its policy, `TARGET_DENIED` if the redrive may not send where it goes or is called back.
   */
  async redriveOne(taskId: string, tenantId: string, redrive?: RedriveScope): Promise<boolean> {
    const { query, policies, secrets, newId, create } = this.#parts;
    const source = await query.get(tenantId, taskId);
    if (source?.status !== "EXHAUSTED" || source.redrivenTo !== null) return false;
    assertKeyTargets(redrive?.targets ?? undefined, [source.targetUrl, source.callbackUrl]);
    const now = this.#parts.now();
    const id = newId(now);
    const marked = redrive ? id.slice(0, 19) + markOf(redrive.redriveId, taskId) : id;
    // A secret that cannot be had stays as it is: the new task ends by it, as the old one would.
    const opened = secrets.open(source);
    const sentKey = opened === null ? undefined : overridesIn(opened.headers).idempotencyKey;
    const task = redrivenTask(opened ?? source, sentKey, marked, now);
    const choice = await policies.rechoose(tenantId, source);
    try {
      return await create(secrets.seal({ ...task, ...choice }));
    } finally {
      policies.release(tenantId, choice.policyId);
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

  /** Why it was left as it is; undefined: it was redriven. */
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
