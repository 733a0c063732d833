/**
 * Claim functions: start the next attempts of waiting tasks, and find lanes and claims. Each claim
 * reads the first entries of one index, whatever the number of destinations is.
 */
import { claimJson } from "../rows/task-rows.ts";

/**
 * Claims from `partitions`, the earliest first in each, for the request `e` at the destination `d` of
 * `commit_batch`. Returns the state and payload of each task as one list in JSON, and its body.
 *
 * The version of the destination is tested by the statement that claims, so both are true at the same
 * instant. Rows that another transaction has locked are skipped, although only nodes that disagree
 * about who leases a partition can meet here. Tasks that are not due yet take only the first places.
 */
export const CLAIM_STATEMENT = `RETURN QUERY
  WITH picked AS MATERIALIZED (
    SELECT w.place, w.next_attempt_at FROM unnest(partitions) p (partition)
    CROSS JOIN LATERAL (
      SELECT w.ctid AS place, w.next_attempt_at FROM waiting_tasks w
      WHERE w.partition = p.partition AND w.destination_id = d.destination_id
        AND w.lane = (e->>3)::int AND w.next_attempt_at <= at + (e->>6)::bigint
        AND (SELECT x.version FROM destinations x WHERE x.destination_id = d.destination_id)
          IN (0, (e->>8)::int)
      ORDER BY w.next_attempt_at, w.ref LIMIT (e->>5)::int FOR UPDATE SKIP LOCKED) w
    LIMIT (e->>5)::int
  ), chosen AS MATERIALIZED (
    SELECT p.place, p.position FROM (
      SELECT q.*, row_number() OVER () AS position FROM picked q) p
    WHERE p.next_attempt_at <= at OR p.position <= (e->>7)::int
  ), gone AS (
    DELETE FROM waiting_tasks w USING chosen c WHERE w.ctid = c.place RETURNING w.*, c.position
  ), started AS (
    INSERT INTO claimed_tasks (ref, next_attempt_at, last_delay_ms, destination_id, attempt_number,
      claim_epoch, abandoned_count, last_status, partition, lane, tenant_id, task_id,
      idempotency_key, policy_id, last_error, claimed_at, claimed_by)
    SELECT g.ref, g.next_attempt_at, g.last_delay_ms, g.destination_id, g.attempt_number + 1,
      g.claim_epoch + 1, g.abandoned_count, g.last_status, g.partition, g.lane, g.tenant_id,
      g.task_id, g.idempotency_key, g.policy_id, g.last_error, at, node FROM gone g
  )
  SELECT NULL::text, (e->>0)::int, ${claimJson("g", {
    attempt_number: "g.attempt_number + 1",
    claim_epoch: "g.claim_epoch + 1",
    claimed_at: "at",
    cancel_requested_at: "NULL",
  })}, t.body
  FROM (SELECT * FROM gone ORDER BY position) g
  JOIN tasks t ON t.tenant_id = g.tenant_id AND t.task_id = g.task_id;`;

export const CLAIM_FUNCTIONS = `
-- Commits of the node hold it shared while they claim; exclusive for the removal of the claimant.
CREATE FUNCTION claimant_lock(node text) RETURNS bigint LANGUAGE sql STABLE AS
  'SELECT hashtextextended(current_schema() || node, 6)';

-- A node has its row before its first claim is committed.
CREATE FUNCTION add_claimant(node text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(claimant_lock(node));
  IF NOT EXISTS (SELECT FROM claimants c WHERE c.node_id = node) THEN
    INSERT INTO claimants VALUES (node) ON CONFLICT DO NOTHING;
  END IF;
END $$;

-- When the next task of a lane is due, in each partition.
CREATE FUNCTION next_due_ats(id int, lane_wanted int, wanted int[]) RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
  RETURN (SELECT jsonb_agg(w.next_attempt_at ORDER BY p.position)
  FROM unnest(wanted) WITH ORDINALITY p (partition, position)
  LEFT JOIN LATERAL (SELECT w.next_attempt_at FROM waiting_tasks w
    WHERE w.partition = p.partition AND w.destination_id = id AND w.lane = lane_wanted
    ORDER BY w.next_attempt_at LIMIT 1) w ON true);
END $$;

-- The lanes of these partitions, after a position, with the instant of their first waiting task.
CREATE FUNCTION due_lanes(wanted int[], after_partition int, after_id int, after_lane int,
  max_count int)
RETURNS TABLE (partition int, destination_id int, lane int, due_at bigint) LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_sort = off
AS $$
#variable_conflict use_variable
DECLARE
  left_count int := max_count;
BEGIN
  FOR partition IN SELECT p FROM unnest(wanted) p WHERE p >= after_partition ORDER BY p LOOP
    destination_id := CASE WHEN partition = after_partition THEN after_id ELSE 0 END;
    lane := CASE WHEN partition = after_partition THEN after_lane ELSE -1 END;
    LOOP
      IF left_count = 0 THEN RETURN; END IF;
      SELECT w.destination_id, w.lane, w.next_attempt_at INTO destination_id, lane, due_at
      FROM waiting_tasks w WHERE w.partition = partition
        AND (w.destination_id, w.lane) > (destination_id, lane)
      ORDER BY w.destination_id, w.lane, w.next_attempt_at LIMIT 1;
      EXIT WHEN NOT FOUND;
      left_count := left_count - 1;
      RETURN NEXT;
    END LOOP;
  END LOOP;
END $$;

-- Nodes that may have claims and have no lease.
CREATE FUNCTION lapsed_nodes(me text) RETURNS text[] LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
  RETURN ARRAY(SELECT c.node_id FROM claimants c WHERE c.node_id <> me AND NOT EXISTS (
    SELECT FROM nodes n WHERE n.node_id = c.node_id AND n.lease_until > clock_ms()));
END $$;
`;
