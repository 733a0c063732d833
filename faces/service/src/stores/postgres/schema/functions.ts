/**
 * Functions: those of the current schema. They belong to the newest migration: it drops the functions of
 * earlier versions, whose tables may have changed, and creates these.
 */
import { CLAIM_FUNCTIONS } from "./claim-functions.ts";
import { COMMIT_BATCH_FUNCTION } from "./commit-batch-function.ts";
import { COMMIT_FUNCTIONS, COMMIT_ROW } from "./commit-functions.ts";
import { CREATE_FUNCTIONS } from "./create-functions.ts";
import { NODE_FUNCTIONS } from "./node-functions.ts";
import { OUTBOX_FUNCTIONS } from "./outbox-functions.ts";
import { REMOVAL_FUNCTIONS } from "./removal-functions.ts";
import { SETTLE_FUNCTIONS } from "./settle-functions.ts";

/**
 * Functions of earlier versions. `enqueue_task` is not among them: users grant it to roles, so it is
 * replaced.
 */
const EARLIER_FUNCTIONS = [
  ...["read_new_tasks", "part_of", "find_places", "may_claim", "insert_tasks", "has_policy"],
  ...["have_policies", "is_redriven", "take_keys", "known_task", "read_settlements", "add_counts"],
  ...["count_claims", "settle_wave", "settle_tasks", "cancel_waiting", "cancel_task", "retry_now"],
  ...["make_durable", "creates_lock", "destination_json", "write_destination", "lock_rows"],
  ...["lock_tasks", "create_tasks", "insert_followers", "write_document", "write_hints"],
  ...["commit_batch", "claim_partition", "next_due_ats", "claim_tasks", "due_lanes", "lapsed_refs"],
  ...["clock_ms", "nodes_lock", "reserve_rate", "grant_slots", "is_free", "is_unused"],
  ...["share_limits", "hints_for", "lock_nodes", "renew_node", "retire_node", "days_lock"],
  ...["add_attempt_day", "remove_attempt_day", "remove_tasks", "sweep_tasks", "discard_tasks"],
  ...["merge_counts", "remove_destination", "remove_unused_destinations", "remove_unused_nodes"],
  ...["is_policy_used", "remove_policy", "remove_inline", "item_lock", "is_open_transaction"],
  ...["prepare_enqueue", "unusual_settles", "refused_claims", "claimant_lock", "add_claimant"],
  ...["remove_claimant", "lapsed_nodes", "add_steps"],
];

const DROP_EARLIER = `
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOR f IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = current_schema()::regnamespace
    AND p.proname = ANY ('{${EARLIER_FUNCTIONS.join(",")}}')
  LOOP
    EXECUTE format('DROP FUNCTION %s', f);
  END LOOP;
END $$;
DROP TYPE IF EXISTS new_task, places, settlement, verdict, commit_row, steps;
`;

export const FUNCTIONS = [
  DROP_EARLIER,
  COMMIT_ROW,
  CREATE_FUNCTIONS,
  SETTLE_FUNCTIONS,
  COMMIT_FUNCTIONS,
  CLAIM_FUNCTIONS,
  COMMIT_BATCH_FUNCTION,
  NODE_FUNCTIONS,
  REMOVAL_FUNCTIONS,
  OUTBOX_FUNCTIONS,
].join("\n");
