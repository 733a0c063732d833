/** Servers: mutants of what PostgreSQL and Redis check before they write. */
import { inService } from "../mutant.mjs";

const postgres = [
  inService("stores/postgres/schema/commit-functions.ts", [
    {
      name: "the versions of a destination start again after its row was removed",
      search: "stored := missing_version();",
      replace: "stored := 0;",
    },
  ]),
  inService("stores/postgres/schema/settle-functions.ts", [
    {
      name: "a settle of an old claim changes the task",
      search: '\n      AND c.claim_epoch = ${number("claimEpoch")}',
      replace: "",
    },
    {
      name: "a cancel does not win over a failed attempt",
      search: "WHEN g.cancel_requested_at IS NOT NULL AND",
      replace: "WHEN false AND",
    },
    {
      name: "a task of another tenant is canceled",
      search: "DELETE FROM waiting_tasks WHERE tenant_id = tenant AND task_id = task RETURNING",
      replace: "DELETE FROM waiting_tasks WHERE task_id = task RETURNING",
    },
    {
      name: "a task of another tenant is retried now",
      search: "WHERE w.tenant_id = tenant AND w.task_id = task AND w.next_attempt_at > at;",
      replace: "WHERE w.task_id = task AND w.next_attempt_at > at;",
    },
  ]),
  inService("stores/postgres/schema/create-functions.ts", [
    {
      name: "a claim that knows an old row is made",
      search: "'SELECT stored = 0 OR (stored = wanted AND NOT is_refused)'",
      replace: "'SELECT stored = 0 OR stored > 0'",
    },
    {
      name: "a task is created under a policy that was removed",
      search: "AND p.version = wanted AND p.removed_at IS NULL);",
      replace: "AND p.version = wanted);",
    },
    {
      name: "a task is created under a policy of another tenant",
      search: "EXISTS (SELECT FROM policies p WHERE p.tenant_id = tenant\n    AND p.policy_id",
      replace: "EXISTS (SELECT FROM policies p WHERE p.policy_id",
    },
  ]),
  inService("stores/postgres/schema/commit-functions.ts", [
    {
      name: "the claims of a live node are rescued",
      search: "WHERE n.node_id = c.node_id AND n.lease_until > clock_ms()));",
      replace: "WHERE n.node_id = c.node_id AND n.lease_until > clock_ms() AND false));",
    },
    {
      name: "a claim ahead of time exceeds its limit",
      search: "WHERE p.next_attempt_at <= at OR p.position <= (e->>7)::int",
      replace: "WHERE p.next_attempt_at <= at OR p.position <= (e->>5)::int",
    },
  ]),
  inService("stores/postgres/due-table.ts", [
    {
      name: "a node rescues claims in partitions of other nodes",
      search: " AND c.partition = ANY ($2)",
      replace: " AND cardinality($2::int[]) >= 0",
    },
  ]),
  inService("stores/postgres/schema/removal-functions.ts", [
    {
      name: "a node is forgotten while it has claims",
      search:
        "  IF EXISTS (SELECT FROM claimed_tasks c WHERE c.claimed_by = node) THEN RETURN; END IF;\n",
      replace: "",
    },
  ]),
  inService("stores/postgres/schema/node-functions.ts", [
    {
      name: "running attempts of other nodes do not count for a share",
      search: "coalesce(sum(greatest(s.slots, s.used)), 0)::bigint AS taken,",
      replace: "coalesce(sum(s.slots), 0)::bigint AS taken,",
    },
    {
      name: "a node whose lease had ended takes whole limits again",
      search: "coalesce(before.takes_all AND before.lease_until > at, false)",
      replace: "coalesce(before.takes_all, false)",
    },
    {
      name: "a report that arrives late replaces a newer one",
      search: "\n  WHERE n.round <= excluded.round;",
      replace: ";",
    },
    {
      name: "a report that arrives late brings back the lease of a retired node",
      search: "is_leaving = true, round = excluded.round;",
      replace: "is_leaving = true;",
    },
    {
      name: "the shares of a dead node are never free",
      search: "JOIN nodes n ON n.node_id = s.node_id AND n.lease_until > at",
      replace: "JOIN nodes n ON n.node_id = s.node_id",
    },
  ]),
];

const redis = [
  inService("stores/redis/scripts/commit-script.ts", [
    {
      name: "a settle of an old claim changes the task",
      search: " or state[5] ~= item[5]",
      replace: "",
    },
    {
      name: "a cancel wins over a success",
      search: "if state[10] and status ~= SUCCEEDED then status = CANCELLED end",
      replace: "if state[10] then status = CANCELLED end",
    },
    {
      name: "a task is created under a policy that was removed",
      search: "return new[12] > known[3] and new[12] <= known[2]",
      replace: "return new[12] <= known[2]",
    },
    {
      name: "a claim that knows an old row is made",
      search: "local other = new[11] and refusing(base, tenant, new[4], new[11]) or 0",
      replace: "local other = 0",
    },
  ]),
  inService("stores/redis/scripts/row-scripts.ts", [
    {
      name: "the versions of a destination start again after its row was removed",
      search: "cmsgpack.unpack(stored)[1] or lastRemoved()",
      replace: "cmsgpack.unpack(stored)[1] or 0",
    },
    {
      name: "a row is removed while a partition may not know its version",
      search: "if row and row[1] == version and isSettled then",
      replace: "if row and row[1] == version then",
    },
  ]),
  inService("stores/redis/scripts/policy-scripts.ts", [
    {
      name: "a policy is removed although a create needed it meanwhile",
      search:
        "if not entry or entry[1] ~= tonumber(ARGV[2]) or entry[4] <= nowMs() then return 0 end",
      replace: "if not entry then return 0 end",
    },
  ]),
  inService("stores/redis/scripts/partition-scripts.ts", [
    {
      name: "a partition forgets the version of a row that was written after the removal",
      search: "if known > 0 and known <= item[2] then",
      replace: "if known > 0 then",
    },
  ]),
  inService("stores/redis/scripts/commit-script.ts", [
    {
      name: "the end of another task makes a key expire",
      search: "if owner and cmsgpack.unpack(owner)[1] == id then",
      replace: "if owner then",
    },
    {
      name: "a dead letter is removed like other ended tasks",
      search: "    later('ZADD', base .. ':ex', now, task)",
      replace: "    later('ZADD', base .. ':en', now, task)",
    },
  ]),
  inService("stores/redis/scripts/node-scripts.ts", [
    {
      name: "a report that arrives late replaces a newer one",
      search: "report[6] < before[5]",
      replace: "report[6] < 0",
    },
    {
      name: "a report that arrives late brings back the lease of a retired node",
      search: "cmsgpack.pack({ now, 0, 1, boot, ${RETIRED_ROUND} })",
      replace: "cmsgpack.pack({ now, 0, 1, boot, 0 })",
    },
    {
      name: "a retired node is forgotten while its last report may be under way",
      search: "and ${RETIRED_MS} or 0",
      replace: "and 0 or 0",
    },
    {
      name: "the claims of a dead node are never rescued",
      search: "found[at] = node and node[1] > now and 1 or 0",
      replace: "found[at] = node and 1 or 0",
    },
    {
      name: "running attempts of other nodes do not count for a share",
      search: "taken = taken + math.max(other[at], other[at + 1])",
      replace: "taken = taken + other[at]",
    },
    {
      name: "the shares of a dead node are never free",
      search: "elseif node[1] > now then",
      replace: "else",
    },
  ]),
];

/** @type {readonly import("../mutant.mjs").Mutant[]} */
export const servers = [...postgres, ...redis].flat();
