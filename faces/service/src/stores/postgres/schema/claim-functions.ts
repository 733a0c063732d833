/**
 * Claim functions: start the next attempts of waiting tasks, and find lanes and claims. Each claim
 * reads the first entries of one partial index, whatever the number of destinations is.
 */

export const CLAIM_FUNCTIONS = `
-- Claims from one partition. "taken" tasks were claimed by the same request before.
--
-- The version of the destination is tested by the statement that claims, so both are true at the same
-- instant. Rows that another transaction has locked are skipped, although only nodes that disagree
-- about who leases the partition can meet here.
CREATE FUNCTION claim_partition(at bigint, node text, number int, id int, wanted int,
  lane_wanted int, partition_wanted int, taken int, max_count int, ahead_ms bigint, max_ahead int)
RETURNS SETOF commit_row LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY
  WITH picked AS MATERIALIZED (
    SELECT o.ctid AS place, o.ref, o.next_attempt_at FROM open_tasks o
    WHERE o.partition = partition_wanted AND o.destination_id = id AND o.lane = lane_wanted
      AND o.status = 0 AND o.next_attempt_at <= at + ahead_ms
      AND (SELECT d.version FROM destinations d WHERE d.destination_id = id) IN (0, wanted)
    ORDER BY o.next_attempt_at, o.ref LIMIT max_count - taken FOR UPDATE SKIP LOCKED
  ), chosen AS MATERIALIZED (
    SELECT p.place FROM (
      SELECT q.*, taken + row_number() OVER (ORDER BY q.next_attempt_at, q.ref) AS position
      FROM picked q) p
    WHERE p.next_attempt_at <= at OR p.position <= max_ahead
  ), claimed AS (
    UPDATE open_tasks o SET status = 1, attempt_number = o.attempt_number + 1,
      claim_epoch = o.claim_epoch + 1, claimed_by = node, claimed_at = at
    FROM chosen c WHERE o.ctid = c.place RETURNING o.*
  )
  SELECT 'claimed', number, ARRAY[c.ref, c.attempt_number, c.claim_epoch, c.claimed_at,
    c.next_attempt_at, c.last_delay_ms, c.abandoned_count, c.cancel_requested_at,
    c.last_status]::text, p.payload, p.body
  FROM claimed c JOIN payloads p ON p.ref = c.ref ORDER BY c.next_attempt_at, c.ref;
END $$;

-- When the next task of a lane is due, in each partition.
CREATE FUNCTION next_due_ats(id int, lane_wanted int, wanted int[]) RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
  RETURN (SELECT jsonb_agg(o.next_attempt_at ORDER BY p.position)
  FROM unnest(wanted) WITH ORDINALITY p (partition, position)
  LEFT JOIN LATERAL (SELECT o.next_attempt_at FROM open_tasks o
    WHERE o.partition = p.partition AND o.destination_id = id AND o.lane = lane_wanted
      AND o.status = 0
    ORDER BY o.next_attempt_at LIMIT 1) o ON true);
END $$;

-- A row for each claimed task, and then the result of the request.
CREATE FUNCTION claim_tasks(at bigint, node text, request jsonb, refused int[])
RETURNS SETOF commit_row LANGUAGE plpgsql AS $$
DECLARE
  request_item int := (request->>0)::int;
  lane_wanted int := (request->>3)::int;
  wanted int[] := ARRAY(SELECT e::int FROM jsonb_array_elements(request->4) e);
  max_count int := (request->>5)::int;
  known int := (request->>8)::int;
  d record;
  row_count int;
  taken int := 0;
BEGIN
  SELECT destination_id, version INTO d FROM destinations
  WHERE tenant_id = request->>1 AND name = request->>2;
  IF may_claim(d.version, known, d.destination_id = ANY (refused)) THEN
    FOR at_position IN 1..cardinality(wanted) LOOP
      RETURN QUERY SELECT * FROM claim_partition(at, node, request_item, d.destination_id, known,
        lane_wanted, wanted[at_position], taken, max_count, (request->>6)::bigint,
        (request->>7)::int);
      GET DIAGNOSTICS row_count = ROW_COUNT;
      taken := taken + row_count;
      EXIT WHEN taken >= max_count;
    END LOOP;
  END IF;
  SELECT destination_id, version INTO d FROM destinations WHERE destination_id = d.destination_id;
  RETURN NEXT ROW('claims', request_item, jsonb_build_array(
    next_due_ats(d.destination_id, lane_wanted, wanted),
    CASE WHEN taken = 0 AND NOT may_claim(d.version, known, d.destination_id = ANY (refused))
      THEN destination_json(d.destination_id) END)::text, NULL, NULL)::commit_row;
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
      SELECT o.destination_id, o.lane, o.next_attempt_at INTO destination_id, lane, due_at
      FROM open_tasks o WHERE o.status = 0 AND o.partition = partition
        AND (o.destination_id, o.lane) > (destination_id, lane)
      ORDER BY o.destination_id, o.lane, o.next_attempt_at LIMIT 1;
      EXIT WHEN NOT FOUND;
      left_count := left_count - 1;
      RETURN NEXT;
    END LOOP;
  END LOOP;
END $$;

-- Claims whose node has no lease.
CREATE FUNCTION lapsed_refs(me text, wanted int[], max_count int) RETURNS SETOF bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off
AS $$
DECLARE
  owner text := '';
  left_count int := max_count;
  found_count int;
BEGIN
  LOOP
    -- Each step finds the next claimant in the index, however many claims it holds.
    SELECT o.claimed_by INTO owner FROM open_tasks o
    WHERE o.status = 1 AND o.claimed_by > owner ORDER BY o.claimed_by LIMIT 1;
    EXIT WHEN NOT FOUND OR left_count = 0;
    CONTINUE WHEN owner = me OR EXISTS (SELECT FROM nodes n
      WHERE n.node_id = owner AND n.lease_until > clock_ms());
    RETURN QUERY SELECT o.ref FROM open_tasks o
      WHERE o.status = 1 AND o.claimed_by = owner AND o.partition = ANY (wanted) LIMIT left_count;
    GET DIAGNOSTICS found_count = ROW_COUNT;
    left_count := left_count - found_count;
  END LOOP;
END $$;
`;
