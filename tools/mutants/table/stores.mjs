/** Stores: mutants of the memory store and the SQLite store. */
import { inService } from "../mutant.mjs";

const queries = [
  inService("stores/sqlite/read/sqlite-query.ts", [
    {
      name: "attempts ignore the tenant",
      search: "(SELECT ref FROM tasks WHERE tenant_id = ? AND task_id = ?)",
      replace: "(SELECT ref FROM tasks WHERE ? <> '' AND task_id = ?)",
    },
    {
      name: "get ignores the tenant",
      search: "WHERE t.tenant_id = ? AND t.task_id = ?`);",
      replace: "WHERE ? <> '' AND t.task_id = ?`);",
    },
    {
      name: "export ignores the tenant",
      search: "WHERE t.tenant_id = ? AND t.task_id > ? ORDER BY",
      replace: "WHERE ? <> '' AND t.task_id > ? ORDER BY",
    },
    {
      name: "count ignores the tenant",
      search: "WHERE d.tenant_id = ? AND c.count > 0",
      replace: "WHERE ? <> '' AND c.count > 0",
    },
    {
      name: "zero counts are listed",
      search: "AND c.count > 0",
      replace: "",
    },
    {
      name: "an exported page repeats the task of its cursor",
      search: "AND t.task_id > ? ORDER BY",
      replace: "AND t.task_id >= ? ORDER BY",
    },
  ]),
  inService("stores/sqlite/read/task-sources.ts", [
    {
      name: "a list of all tasks ignores the tenant",
      search: '[[{ table: "tasks", conditions: [ofTenant] }]]',
      replace: '[[{ table: "tasks", conditions: [is("1 = 1")] }]]',
    },
    {
      name: "a list by label ignores the tenant",
      search: '"tenant_id = ? AND name = ? AND value = ?"',
      replace: "\"? <> '' AND name = ? AND value = ?\"",
    },
    {
      name: "a range includes its end",
      search: '"p.created_at < ?", filter.createdTo',
      replace: '"p.created_at <= ?", filter.createdTo',
    },
    {
      name: "a range of ends includes its end",
      search: '"t.finished_at < ?", filter.finishedTo',
      replace: '"t.finished_at <= ?", filter.finishedTo',
    },
    {
      name: "a range of ends excludes its start",
      search: '"t.finished_at >= ?", filter.finishedFrom',
      replace: '"t.finished_at > ?", filter.finishedFrom',
    },
    {
      name: "a label matches by its name alone",
      search: "WHERE key = ? AND value = ?)",
      replace: "WHERE key = ? AND ? <> '')",
    },
  ]),
  inService("stores/memory/memory-query.ts", [
    {
      name: "list ignores the tenant",
      search: "        .filter(({ task }) => task.tenantId === tenantId)\n",
      replace: "",
    },
    {
      name: "export ignores the tenant",
      search: "row.task.tenantId === tenantId && row.task.taskId > cursor",
      replace: "row.task.taskId > cursor",
    },
    {
      name: "a range includes its end",
      search: "at < (to ??",
      replace: "at <= (to ??",
    },
    {
      name: "a task that has not ended is within a range of ends",
      search: "at !== null && at >= (from ?? 0) && at <",
      replace: "(at ?? 0) >= (from ?? 0) && (at ?? 0) <",
    },
    {
      name: "an exported page repeats the task of its cursor",
      search: "row.task.taskId > cursor)",
      replace: "row.task.taskId >= cursor)",
    },
  ]),
  inService("stores/memory/rows.ts", [
    {
      name: "zero counts are listed",
      search: "entry.tenantId === tenantId && entry.count > 0",
      replace: "entry.tenantId === tenantId",
    },
    {
      name: "count ignores the tenant",
      search: "entry.tenantId === tenantId && entry.count > 0",
      replace: "entry.count > 0",
    },
    {
      name: "a task that was removed is still claimed",
      search: 'state.status === "PENDING" && this.#byRef.has(row.ref)',
      replace: 'state.status === "PENDING"',
      equivalent: "only ended tasks are removed, and an ended task is not PENDING",
    },
    {
      name: "a rescheduled task keeps its old place in the lane",
      search: "waits && state.lane === lane && state.nextAttemptAt === dueAt",
      replace: "waits && state.lane === lane",
    },
  ]),
];

const writes = [
  inService("stores/sqlite/write/claim-writer.ts", [
    {
      name: "a claim under an old version of the destination succeeds",
      search: "const current = mayClaim(context, stored, version);",
      replace: "const current = true;",
    },
    {
      name: "a claim takes any number of tasks ahead of time",
      search: "task.nextAttemptAt > now && tasks.length >= aheadLimit",
      replace: "false",
    },
    {
      name: "a claim counts due tasks only, not those before them, as tasks ahead of time",
      search: "if (task.nextAttemptAt > now && tasks.length >= aheadLimit) break;",
      replace: "if (task.nextAttemptAt > now && tasks.length > aheadLimit) break;",
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
  inService("stores/sqlite/write/batch-context.ts", [
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
  inService("stores/sqlite/write/create-writer.ts", [
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
      search: "AND redriven_to IS NULL",
      replace: "",
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
  inService("stores/sqlite/write/settle-writer.ts", [
    {
      name: "an old claim settles the task",
      search: "WHERE ref = ? AND claim_epoch = ? AND task_id",
      replace: "WHERE ref = ? AND ? > 0 AND task_id",
    },
    {
      name: "a settle of an ended task succeeds",
      search: "AND task_id = ? AND status = 1",
      replace: "AND task_id = ?",
      equivalent:
        "a settle and a cancel of a running task advance or keep the epoch with the status: no task has the epoch of a claim unless it is IN_FLIGHT",
    },
    {
      name: "a settle does not advance the epoch",
      search: "claim_epoch = claim_epoch + 1, claimed_by = NULL",
      replace: "claimed_by = NULL",
    },
    {
      name: "a cancel wins over a success",
      search: 'isCancelled && status !== "SUCCEEDED"',
      replace: "isCancelled",
    },
    {
      name: "a cancel finds the task of another tenant",
      search: "    WHERE tenant_id = ? AND task_id = ?`);",
      replace: "    WHERE ? <> '' AND task_id = ?`);",
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
  inService("stores/sqlite/write/discard.ts", [
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
  inService("stores/sqlite/write/sweeper.ts", [
    {
      name: "dead letters are swept with other tasks",
      search: "status === 3 ? deadBefore : endedBefore",
      replace: "endedBefore",
    },
    {
      name: "a sweep exceeds its limit",
      search: "endedBefore, limit - removed);",
      replace: "endedBefore, limit);",
    },
    {
      name: "keys are swept beyond the limit",
      search: "keys.sweep(now, limit - removed)",
      replace: "keys.sweep(now, limit)",
    },
    {
      name: "canceled tasks are never swept",
      search: "[2, 3, 4]",
      replace: "[2, 3]",
    },
    {
      name: "a sweep leaves the attempts behind",
      search: '    "DELETE FROM attempts WHERE ref = ?",\n',
      replace: "",
    },
  ]),
  inService("stores/sqlite/write/key-expiry.ts", [
    {
      name: "the key of an ended task never expires",
      search: "if (key !== null) remove.run(tenantId, key, taskId);",
      replace: "",
    },
    {
      name: "the end of a task expires the key of another one",
      search:
        "DELETE FROM idempotency_keys\n    WHERE tenant_id = ? AND idempotency_key = ? AND task_id = ?",
      replace:
        "DELETE FROM idempotency_keys\n    WHERE tenant_id = ? AND idempotency_key = ? AND ? <> ''",
    },
    {
      name: "the key of a removed task never expires",
      search: "if (key !== null) keep.run(finishedAt + KEY_RETENTION_MS, tenantId, key, taskId);",
      replace: "",
    },
  ]),
  inService("stores/sqlite/write/writer.ts", [
    {
      name: "counts are not written with the batch",
      search: "    destinations.flush();\n    return result;",
      replace: "    return result;",
    },
  ]),
];

const tables = [
  inService("stores/sqlite/tables/policy-table.ts", [
    {
      name: "a policy of another tenant's task cannot be removed",
      search: "AND t.tenant_id = ?1 AND p.policy_id = ?2)",
      replace: "AND p.policy_id = ?2)",
    },
    {
      name: "the policies of all tenants are listed",
      search: "FROM policies WHERE tenant_id = ? GROUP BY policy_id",
      replace: "FROM policies WHERE ? <> '' GROUP BY policy_id",
    },
    {
      name: "the policy of another tenant is read",
      search: "FROM policies WHERE tenant_id = ? AND policy_id = ? AND version",
      replace: "FROM policies WHERE ? <> '' AND policy_id = ? AND version",
    },
    {
      name: "the policy of another tenant is removed",
      search: "DELETE FROM policies WHERE tenant_id = ?1 AND policy_id = ?2",
      replace: "DELETE FROM policies WHERE ?1 <> '' AND policy_id = ?2",
    },
    {
      name: "a policy of a running task can be removed",
      search: "t.status IN (${PENDING}, ${IN_FLIGHT})",
      replace: "t.status IN (${PENDING})",
    },
  ]),
  inService("stores/sqlite/tables/document-table.ts", [
    {
      name: "documents of tenants are mixed",
      search: '"kind = ? AND tenant_id = ? AND id = ?"',
      replace: "\"kind = ? AND ? <> '' AND id = ?\"",
    },
    {
      name: "a document is written over any version",
      search: "AND version = ?`,",
      replace: "AND ? >= 0`,",
    },
    {
      name: "the documents of a kind have no order",
      search: "WHERE kind = ? ORDER BY id",
      replace: "WHERE kind = ? ORDER BY id DESC",
    },
  ]),
  inService("stores/sqlite/tables/node-table.ts", [
    {
      name: "the latest instant moves back",
      search: "max(value, excluded.value)",
      replace: "excluded.value",
    },
    {
      name: "a node's own claims count as lapsed",
      search: '"t.claimed_by <> ?"',
      replace: '"t.claimed_by >= 0 OR ? >= 0"',
    },
    {
      name: "claims of other nodes count as a node's own",
      search: 'claimed("t.claimed_by = ?")',
      replace: 'claimed("? >= 0")',
    },
  ]),
  inService("stores/sqlite/tables/destination-table.ts", [
    {
      name: "the counts of a batch are added twice",
      search: "    this.#steps.clear();\n  }\n}",
      replace: "  }\n}",
    },
  ]),
  inService("stores/memory/memory-store.ts", [
    {
      name: "a lease that ends now is still valid",
      search: "(leases.get(owner) ?? 0) <= now",
      replace: "(leases.get(owner) ?? 0) < now",
    },
    {
      name: "the policies of all tenants are listed",
      search: "        .filter((policy) => policy.tenantId === tenantId)\n",
      replace: "",
    },
    {
      name: "the destinations of all tenants are listed",
      search: ".filter((row) => row.tenantId === tenantId);",
      replace: ";",
    },
    {
      name: "a policy of another tenant's task cannot be removed",
      search: "task.tenantId === tenantId && task.policyId === policyId",
      replace: "task.policyId === policyId",
    },
    {
      name: "a sweep exceeds its limit",
      search: "expired.slice(0, limit - removed.length)",
      replace: "expired",
    },
  ]),
];

export const stores = [...queries, ...writes, ...tables].flat();
