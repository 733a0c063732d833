/** Held tasks: makes the tasks of a policy due that waited because the policy could not be read. */
import type { Engine } from "../engine/engine.ts";
import { isHeldByPolicy } from "../engine/run/unreadable-policy.ts";
import type { TaskQuery } from "../model/task-query.ts";

const PAGE_SIZE = 250;

/** One page at a time. Resolves when all are due; guards still apply. */
export async function resumeHeldTasks(
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
