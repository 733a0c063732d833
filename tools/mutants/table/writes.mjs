/** Writes: mutants of what a batch, a discard and a sweep write to the SQLite store. */
import { inService } from "../mutant.mjs";

export const writes = [
  inService("stores/sqlite/create-writer.ts", [
    {
      name: "a claim under an old version of the destination succeeds",
      search: "const isCurrent = mayClaim(context, stored, version);",
      replace: "const isCurrent = true;",
    },
    {
      name: "a claim takes any number of tasks ahead of time",
      search: "const soon = ahead.slice(0, Math.max(0, count));",
      replace: "const soon = ahead;",
    },
    {
      name: "a claim counts due tasks only, not those before them, as tasks ahead of time",
      search: "Math.min(request.limit, request.aheadLimit) - due.length - started.length",
      replace: "Math.min(request.limit, request.aheadLimit)",
    },
    {
      name: "a claim does not advance the epoch",
      search: "claim_epoch = claim_epoch + 1, claimed_by",
      replace: "claimed_by",
    },
    {
      name: "a claim takes a task that is not due",
      search: "now + aheadMs, limit)",
      replace: "now + aheadMs + 1, limit)",
    },
    {
      name: "claims are not counted",
      search: 'destinations.tally(stored, "PENDING", "IN_FLIGHT");',
      replace: "",
    },
    {
      name: "a claim takes tasks of equal instants in any order",
      search: "ORDER BY t.next_attempt_at, t.ref LIMIT",
      replace: "ORDER BY t.next_attempt_at, t.ref DESC LIMIT",
    },
  ]),
  inService("stores/sqlite/batch-context.ts", [
    {
      name: "a claim under a rejected row succeeds",
      search: "row.version === version && !refused.has(stored)",
      replace: "row.version === version",
    },
    {
      name: "a claim under version 0 of a written row succeeds",
      search: "row.version === 0 ||",
      replace: "version === 0 ||",
    },
  ]),
  inService("stores/sqlite/create-writer.ts", [
    {
      name: "keys of tenants are mixed",
      search: 'WHERE tenant_id = ? AND idempotency_key = ?",',
      replace: "WHERE ? <> '' AND idempotency_key = ?\",",
    },
    {
      name: "a reused key with another payload is a replay",
      search: 'knownFingerprint === fingerprint ? "replayed" : "conflict"',
      replace: '"replayed"',
    },
    {
      name: "a redrive of another tenant marks the source",
      search: "SET redriven_to = ? WHERE tenant_id = ? AND task_id = ?",
      replace: "SET redriven_to = ? WHERE ? <> '' AND task_id = ?",
    },
    {
      name: "a source is redriven twice",
      search: 'return taskId === null ? null : { kind: "redriven", taskId: taskId as string };',
      replace: "return null;",
    },
    {
      name: "a redrive of another tenant's redriven source is refused",
      search: '"SELECT redriven_to FROM tasks WHERE tenant_id = ? AND task_id = ?"',
      replace: "\"SELECT redriven_to FROM tasks WHERE ? <> '' AND task_id = ?\"",
    },
    {
      name: "a refused claim of a create does not return the row",
      search: "row: claimVersion === null ? null : stored.row",
      replace: "row: null",
    },
  ]),
  inService("stores/sqlite/settle-writer.ts", [
    {
      name: "an old claim settles the task",
      search: "ref = ? AND claim_epoch = ? AND task_id = ? AND status = 1",
      replace: "ref = ? AND ? > 0 AND task_id = ? AND status = 1",
    },
    {
      name: "a settle of a removed task ends the task that has its row number now",
      search: "AND claim_epoch = ? AND task_id = ? AND status = 1",
      replace: "AND claim_epoch = ? AND ? <> '' AND status = 1",
    },
    {
      name: "a settle of an ended task succeeds",
      search: "AND claim_epoch = ? AND task_id = ? AND status = 1",
      replace: "AND claim_epoch = ? AND task_id = ?",
      equivalent:
        "a settle and a cancel of a running task advance or keep the epoch with the status: no task has the epoch of a claim unless it is IN_FLIGHT",
    },
    {
      name: "a settle does not advance the epoch",
      search: "claim_epoch = claim_epoch + 1, claimed_by = NULL",
      replace: "claimed_by = NULL",
    },
    {
      name: "a success whose row has another state is reported as settled",
      search: "countChanges() - before !== 2 * settled",
      replace: "countChanges() < before",
    },
    {
      name: "a success is still counted as in flight",
      search: 'destinations.tally(destination, "IN_FLIGHT", "SUCCEEDED");',
      replace: "",
    },
    {
      name: "a cancel wins over a success",
      search: 'isCancelled && status !== "SUCCEEDED"',
      replace: "isCancelled",
    },
    {
      name: "a cancel finds the task of another tenant",
      search: "WHERE tenant_id = ? AND task_id = ?`",
      replace: "WHERE ? <> '' AND task_id = ?`",
    },
    {
      name: "a second cancel request moves the instant of the first",
      search: "(requestedAt as number | null) ?? now",
      replace: "now",
    },
    {
      name: "retry now delays a task that is overdue",
      search: "min(next_attempt_at, ?)",
      replace: "max(0, ?)",
    },
    {
      name: "a canceled task is still counted as waiting",
      search: 'destinations.tally(storedById(destinationId), "PENDING", "CANCELLED");',
      replace: "",
    },
    {
      name: "a returned attempt number is kept",
      search: "item.attempt === null ? 1 : 0",
      replace: "0",
    },
    {
      name: "an ended task loses the instant of its last attempt",
      search: "ended ? null : item.nextAttemptAt",
      replace: "item.nextAttemptAt",
    },
  ]),
  inService("stores/sqlite/sweeper.ts", [
    {
      name: "the key of an ended task never expires",
      search: "removed += Number(remove.run(tenantId, key, taskId).changes);",
      replace: "removed += 0;",
    },
    {
      name: "the key of a canceled task never expires",
      search: "[2, 3, 4] as const",
      replace: "[2, 3] as const",
    },
    {
      name: "the key of a removed task never expires",
      search: "removed + Number(removeExpired.run(now, left).changes)",
      replace: "removed",
    },
    {
      name: "the end of a task expires the key of another one",
      search:
        "DELETE FROM idempotency_keys\n    WHERE tenant_id = ? AND idempotency_key = ? AND task_id = ?`",
      replace:
        "DELETE FROM idempotency_keys\n    WHERE tenant_id = ? AND idempotency_key = ? AND ? <> ''`",
    },
    {
      name: "the removal of a task expires the key of another one",
      search:
        "SET expires_at = ?\n    WHERE tenant_id = ? AND idempotency_key = ? AND task_id = ?`",
      replace: "SET expires_at = ?\n    WHERE tenant_id = ? AND idempotency_key = ? AND ? <> ''`",
    },
    {
      name: "the removal of a task expires the key of another tenant",
      search:
        "SET expires_at = ?\n    WHERE tenant_id = ? AND idempotency_key = ? AND task_id = ?`",
      replace: "SET expires_at = ?\n    WHERE ? <> '' AND idempotency_key = ? AND task_id = ?`",
      equivalent: "task ids are unique, so the condition on the task implies the tenant",
    },
  ]),
  inService("stores/sqlite/sweeper.ts", [
    {
      name: "a discard removes dead letters of another tenant",
      search: "t.status = 3 AND t.tenant_id = ?",
      replace: "t.status = 3 AND ? <> ''",
    },
    {
      name: "a discard removes tasks that are not dead letters",
      search: "t.status = 3 AND t.tenant_id",
      replace: "t.tenant_id",
    },
    {
      name: "discarded tasks are still counted",
      search: 'destinations.tally(destinations.byId(id), "EXHAUSTED", null);',
      replace: "",
    },
    {
      name: "a discard leaves the attempts behind",
      search: '["attempts", "payloads", "tasks"]',
      replace: '["payloads", "tasks"]',
    },
  ]),
  inService("stores/sqlite/sweeper.ts", [
    {
      name: "dead letters are swept with other tasks",
      search: "status === 3 ? deadBefore : endedBefore",
      replace: "endedBefore",
    },
    {
      name: "a sweep exceeds its limit",
      search: "before, limit - removed, isOver",
      replace: "before, limit, isOver",
    },
    {
      name: "a slice of removals ignores its time",
      search: "      if (isOver()) break;\n    }",
      replace: "    }",
    },
    {
      name: "keys are swept beyond the limit",
      search: "keys.sweep(now, limit - removed)",
      replace: "keys.sweep(now, limit)",
    },
    {
      name: "canceled tasks are never swept",
      search: "const status of [2, 3, 4]",
      replace: "const status of [2, 3]",
    },
    {
      name: "a sweep leaves the attempts behind",
      search: '    "DELETE FROM attempts WHERE ref = ?",\n',
      replace: "",
    },
  ]),
  inService("stores/sqlite/writer.ts", [
    {
      name: "counts are not written with the batch",
      search: "    destinations.flush();\n    return {",
      replace: "    return {",
    },
  ]),
].flat();
