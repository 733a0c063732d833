/** Tables: mutants of the memory store, and of the tables of the SQLite store. */
import { inService } from "../mutant.mjs";

export const tables = [
  inService("stores/memory/rows.ts", [
    {
      name: "zero counts are listed",
      search: ".filter(([, count]) => count > 0)",
      replace: "",
    },
    {
      name: "count ignores the tenant",
      search: "this.#places.ofFirst(tenantId)",
      replace: "[...this.#places.values()]",
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
  inService("stores/sqlite/policy-table.ts", [
    {
      name: "a policy of another tenant's task cannot be removed",
      search: "AND t.tenant_id = ?1 AND p.policy_id = ?2)",
      replace: "AND p.policy_id = ?2)",
    },
    {
      name: "the policies of all tenants are listed",
      search: "FROM policies WHERE tenant_id = ? AND removed_at IS NULL",
      replace: "FROM policies WHERE ? <> '' AND removed_at IS NULL",
    },
    {
      name: "the policy of another tenant is read",
      search: "WHERE tenant_id = ? AND policy_id = ? AND version = ifnull(?, version)",
      replace: "WHERE ? <> '' AND policy_id = ? AND version = ifnull(?, version)",
    },
    {
      name: "the policy of another tenant is removed",
      search: "WHERE tenant_id = ?1 AND policy_id = ?2 AND removed_at IS NULL",
      replace: "WHERE ?1 <> '' AND policy_id = ?2 AND removed_at IS NULL",
    },
    {
      name: "a policy of a running task can be removed",
      search: "t.status IN (${PENDING}, ${IN_FLIGHT})",
      replace: "t.status IN (${PENDING})",
    },
  ]),
  inService("stores/sqlite/document-table.ts", [
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
      search: "ORDER BY tenant_id, id LIMIT ?",
      replace: "ORDER BY tenant_id, id DESC LIMIT ?",
    },
    {
      name: "the documents of a tenant have no order",
      search: "  ORDER BY id LIMIT ?",
      replace: "  ORDER BY id DESC LIMIT ?",
    },
  ]),
  inService("stores/sqlite/node-table.ts", [
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
  inService("stores/sqlite/destination-table.ts", [
    {
      name: "the counts of a batch are added twice",
      search: "    this.#steps.clear();\n    this.#touchedBefore = this.#touched;",
      replace: "    this.#touchedBefore = this.#touched;",
    },
    {
      name: "the success of an older claim ends the current claim of its task",
      search: "claim.epoch !== claimEpoch || claim.taskId !== taskId",
      replace: "false",
    },
  ]),
  inService("stores/memory/memory-nodes.ts", [
    {
      name: "a lease that ends now is still valid",
      search: "?.leaseUntil ?? 0) > this.#clock()",
      replace: "?.leaseUntil ?? 0) >= this.#clock()",
    },
    {
      name: "a node whose lease had ended takes whole limits again",
      search: "(isHeld && before.takesAll)",
      replace: "before?.takesAll === true",
    },
    {
      name: "running attempts of other nodes do not count for a share",
      search: "Math.max(slots, report.slots?.used ?? 0)",
      replace: "slots",
    },
  ]),
  inService("stores/memory/memory-store.ts", [
    {
      name: "the open circuits of all tenants are listed",
      search: ".filter((row) => row.tenantId === tenantId);",
      replace: ";",
    },
    {
      name: "a sweep exceeds its limit",
      search: "    if (removed >= limit) break;\n    const { status",
      replace: "    const { status",
    },
  ]),
  inService("stores/memory/memory-destinations.ts", [
    {
      name: "the destinations of all tenants are listed",
      search: ".filter((row) => row.tenantId === tenantId);",
      replace: ";",
    },
  ]),
  inService("stores/memory/memory-store.ts", [
    {
      name: "the policies of all tenants are listed",
      search: ".filter((policy) => policy.tenantId === tenantId);",
      replace: ";",
    },
    {
      name: "a policy of another tenant's task cannot be removed",
      search: "task.tenantId === tenantId && task.policyId === policyId",
      replace: "task.policyId === policyId",
    },
  ]),
].flat();
