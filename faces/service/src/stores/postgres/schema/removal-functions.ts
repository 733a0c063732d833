/**
 * Removal functions: remove tasks and keys whose retention is over, whole days of attempts, and rows
 * that nothing uses. Each call examines a bounded number of rows.
 */
import { RETIRED_MS, RETIRED_ROUND } from "../../../model/node-report.ts";

export const REMOVAL_FUNCTIONS = `
CREATE FUNCTION days_lock() RETURNS bigint LANGUAGE sql STABLE AS
  'SELECT hashtextextended(current_schema(), 3)';

-- Creates the partition of a day. A partition that is attached does not block writers.
CREATE FUNCTION add_attempt_day(wanted int) RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT SET lock_timeout = 3000
AS $$
DECLARE
  name text := format('attempts_%s', wanted);
BEGIN
  PERFORM pg_advisory_xact_lock(days_lock());
  IF EXISTS (SELECT FROM attempt_days WHERE day = wanted) THEN RETURN; END IF;
  EXECUTE format('CREATE TABLE %I (LIKE attempts INCLUDING INDEXES)', name);
  EXECUTE format('ALTER TABLE attempts ATTACH PARTITION %I FOR VALUES IN (%s)', name, wanted);
  INSERT INTO attempt_days VALUES (wanted);
END $$;

-- Removes the oldest day before "before", once the attempts of tasks that still exist were moved.
-- Examines at most "max_count" attempts per call. Commits wait behind a removal that waits for a
-- lock, so it gives up soon, and the next call tries again.
CREATE FUNCTION remove_attempt_day(before int, max_count int) RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET lock_timeout = 100
AS $$
DECLARE
  oldest attempt_days;
  name text;
  last_ref bigint;
BEGIN
  IF NOT pg_try_advisory_xact_lock(days_lock()) THEN RETURN false; END IF;
  SELECT * INTO oldest FROM attempt_days WHERE day < before ORDER BY day LIMIT 1;
  IF NOT FOUND THEN RETURN false; END IF;
  name := format('attempts_%s', oldest.day);
  EXECUTE format('SELECT max(ref) FROM (SELECT ref FROM %I WHERE ref > $1 ORDER BY ref LIMIT $2) a',
    name) INTO last_ref USING oldest.examined_ref, max_count;
  IF last_ref IS NULL THEN
    EXECUTE format('DROP TABLE %I', name);
    DELETE FROM attempt_days WHERE day = oldest.day;
    RETURN true;
  END IF;
  EXECUTE format('INSERT INTO kept_attempts (ref, attempt_number, day, log, response_body)
    SELECT a.ref, a.attempt_number, a.day, a.log, a.response_body FROM %I a
    WHERE a.ref > $1 AND a.ref <= $2 AND EXISTS (SELECT FROM tasks t
      WHERE t.tenant_id = a.tenant_id AND t.task_id = a.task_id)', name)
    USING oldest.examined_ref, last_ref;
  UPDATE attempt_days SET examined_ref = last_ref WHERE day = oldest.day;
  RETURN false;
END $$;

-- Removes these ended tasks; their keys stay. The counts have a slot that belongs to no node.
CREATE FUNCTION remove_tasks(refs bigint[]) RETURNS int LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  made steps;
BEGIN
  IF cardinality(refs) = 0 THEN RETURN 0; END IF;
  DELETE FROM task_labels WHERE ref = ANY (refs);
  DELETE FROM kept_attempts WHERE ref = ANY (refs);
  WITH gone AS (
    DELETE FROM ended_tasks WHERE ref = ANY (refs)
    RETURNING tenant_id, task_id, destination_id, status
  ), removed AS (
    DELETE FROM tasks t USING gone g WHERE t.tenant_id = g.tenant_id AND t.task_id = g.task_id
  )
  SELECT array_agg(destination_id), array_agg(status::int), array_fill(-1, ARRAY[count(*)::int])
  INTO made FROM gone;
  IF made.statuses IS NULL THEN RETURN 0; END IF;
  PERFORM add_counts('', made);
  RETURN cardinality(made.statuses);
END $$;

CREATE FUNCTION sweep_tasks(at bigint, ended_before bigint, dead_before bigint, max_count int)
RETURNS int LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET lock_timeout = 3000
AS $$
DECLARE
  removed int;
  key_count int;
BEGIN
  removed := remove_tasks(ARRAY(SELECT t.ref FROM ended_tasks t WHERE t.status IN (2, 4)
    AND t.finished_at < ended_before ORDER BY t.finished_at LIMIT max_count
    FOR UPDATE SKIP LOCKED));
  removed := removed + remove_tasks(ARRAY(SELECT t.ref FROM ended_tasks t WHERE t.status = 3
    AND t.finished_at < dead_before ORDER BY t.finished_at LIMIT max_count - removed
    FOR UPDATE SKIP LOCKED));
  DELETE FROM idempotency_keys k WHERE k.ctid = ANY (ARRAY(
    SELECT x.ctid FROM idempotency_keys x WHERE x.expires_at <= at
    ORDER BY x.expires_at LIMIT max_count - removed FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS key_count = ROW_COUNT;
  RETURN removed + key_count;
END $$;

CREATE FUNCTION discard_tasks(tenant text, ids text[]) RETURNS int LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET lock_timeout = 3000
AS $$
BEGIN
  PERFORM make_durable();
  RETURN remove_tasks(ARRAY(SELECT t.ref FROM ended_tasks t WHERE t.tenant_id = tenant
    AND t.task_id = ANY (ids) AND t.status = 3 ORDER BY t.ref FOR UPDATE));
END $$;

-- Adds the counts of nodes without a lease to the slot of no node, and removes zeros.
CREATE FUNCTION merge_counts(tenant text, id int) RETURNS int LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  merged int;
  zeros int;
BEGIN
  WITH gone AS (
    DELETE FROM counts c WHERE c.tenant_id = tenant AND c.destination_id = id AND c.node_id <> ''
      AND NOT EXISTS (SELECT FROM nodes n
        WHERE n.node_id = c.node_id AND n.lease_until > clock_ms())
    RETURNING c.status, c.count
  ), added AS (
    INSERT INTO counts AS c SELECT tenant, id, status, '', sum(count) FROM gone
    GROUP BY status ORDER BY status ON CONFLICT (tenant_id, destination_id, status, node_id)
    DO UPDATE SET count = c.count + excluded.count
  )
  SELECT count(*) INTO merged FROM gone;
  DELETE FROM counts c WHERE c.tenant_id = tenant AND c.destination_id = id AND c.count = 0;
  GET DIAGNOSTICS zeros = ROW_COUNT;
  RETURN merged + zeros;
END $$;

-- Removes a destination that no node has written and that has no tasks. The caller has the lock. One
-- that an open transaction of a caller uses is skipped.
CREATE FUNCTION remove_destination(tenant text, id int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
  IF NOT pg_try_advisory_xact_lock(item_lock('destination', tenant,
    (SELECT d.name FROM destinations d WHERE d.destination_id = id))) THEN RETURN 0; END IF;
  IF EXISTS (SELECT FROM counts c WHERE c.tenant_id = tenant AND c.destination_id = id
    GROUP BY c.status HAVING sum(c.count) <> 0) THEN RETURN 0; END IF;
  IF EXISTS (SELECT FROM tasks t WHERE t.destination_id = id) THEN RETURN 0; END IF;
  DELETE FROM counts c WHERE c.tenant_id = tenant AND c.destination_id = id;
  DELETE FROM destinations d WHERE d.destination_id = id AND d.version = 0;
  RETURN FOUND::int;
END $$;

-- Examines destinations after an id: how many rows were removed, and the last id.
CREATE FUNCTION remove_unused_destinations(after_id int, max_count int)
RETURNS TABLE (removed int, last_id int) LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET lock_timeout = 1000
AS $$
DECLARE
  page int[] := ARRAY(SELECT x.destination_id FROM destinations x
    WHERE x.destination_id > after_id ORDER BY x.destination_id LIMIT max_count);
  unused int[] := ARRAY(SELECT x.destination_id FROM destinations x
    WHERE x.destination_id = ANY (page) AND x.version = 0
      AND NOT EXISTS (SELECT FROM tasks t WHERE t.destination_id = x.destination_id));
  d record;
BEGIN
  -- Before any row is changed: a commit takes the lock first, and its counts afterward.
  IF cardinality(unused) > 0 THEN PERFORM pg_advisory_xact_lock(creates_lock()); END IF;
  removed := 0;
  last_id := page[cardinality(page)];
  FOR d IN SELECT x.destination_id, x.tenant_id FROM destinations x
    WHERE x.destination_id = ANY (page) ORDER BY x.destination_id
  LOOP
    removed := removed + merge_counts(d.tenant_id, d.destination_id);
    IF d.destination_id = ANY (unused) THEN
      removed := removed + remove_destination(d.tenant_id, d.destination_id);
    END IF;
  END LOOP;
  RETURN NEXT;
END $$;

-- A node without a lease has no claims any more, unless one of its commits is under way. The lock and
-- the search are two statements: the second one sees what was committed before the first.
CREATE FUNCTION remove_claimant(node text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF NOT pg_try_advisory_xact_lock(claimant_lock(node)) THEN RETURN; END IF;
  IF EXISTS (SELECT FROM claimed_tasks c WHERE c.claimed_by = node) THEN RETURN; END IF;
  DELETE FROM claimants WHERE node_id = node;
END $$;

-- Removes nodes without a lease and without claims, retired ones later than others, and what they had
-- of the limits.
CREATE FUNCTION remove_unused_nodes() RETURNS int LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET lock_timeout = 1000
AS $$
DECLARE
  unused text[];
BEGIN
  PERFORM pg_advisory_xact_lock(nodes_lock());
  PERFORM remove_claimant(lapsed) FROM unnest(lapsed_nodes('')) lapsed;
  unused := ARRAY(SELECT n.node_id FROM nodes n
    WHERE n.lease_until + CASE n.round WHEN ${RETIRED_ROUND} THEN ${RETIRED_MS} ELSE 0 END <= clock_ms()
    AND NOT EXISTS (SELECT FROM claimants c WHERE c.node_id = n.node_id));
  DELETE FROM nodes WHERE node_id = ANY (unused);
  DELETE FROM shares WHERE node_id = ANY (unused);
  RETURN cardinality(unused);
END $$;

-- Does a task that has not ended use it?
CREATE FUNCTION is_policy_used(tenant text, policy text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (SELECT FROM waiting_tasks w WHERE w.tenant_id = tenant AND w.policy_id = policy)
    OR EXISTS (SELECT FROM claimed_tasks c WHERE c.tenant_id = tenant AND c.policy_id = policy);
END $$;

CREATE FUNCTION remove_policy(tenant text, policy text, at bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET lock_timeout = 3000
AS $$
BEGIN
  PERFORM make_durable();
  -- The search may take a while, so it is made before the lock, too.
  IF is_policy_used(tenant, policy) THEN RETURN false; END IF;
  PERFORM pg_advisory_xact_lock(creates_lock());
  IF NOT pg_try_advisory_xact_lock(item_lock('policy', tenant, policy)) THEN RETURN false; END IF;
  IF is_policy_used(tenant, policy) THEN RETURN false; END IF;
  UPDATE policies SET removed_at = at
  WHERE tenant_id = tenant AND policy_id = policy AND removed_at IS NULL;
  RETURN FOUND;
END $$;

-- The locks are taken by a statement of their own: the next one sees what was committed before them.
CREATE FUNCTION remove_inline(tenants text[], ids text[]) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET lock_timeout = 3000
AS $$
DECLARE
  free boolean[];
BEGIN
  PERFORM pg_advisory_xact_lock(creates_lock());
  free := ARRAY(SELECT pg_try_advisory_xact_lock(item_lock('policy', u.tenant_id, u.policy_id))
    FROM unnest(tenants, ids) WITH ORDINALITY u (tenant_id, policy_id, position)
    ORDER BY u.position);
  DELETE FROM policies p USING unnest(tenants, ids, free) u (tenant_id, policy_id, is_free)
  WHERE u.is_free AND p.tenant_id = u.tenant_id AND p.policy_id = u.policy_id
    AND NOT EXISTS (SELECT FROM tasks t WHERE t.tenant_id = p.tenant_id
      AND t.policy_id = p.policy_id AND t.policy_version > 0);
END $$;
`;
