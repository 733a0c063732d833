/**
 * Removal functions: remove tasks and keys whose retention is over, whole days of attempts, and rows
 * that nothing uses. Each call examines a bounded number of rows.
 */
import { CIRCUIT_KEPT_MS } from "../../../model/destination-row.ts";
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
-- Examines at most "max_count" attempts per call; true: there are more, or the day is empty now. Commits wait behind a removal that waits for a
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
    RETURN false;
  END IF;
  EXECUTE format('INSERT INTO kept_attempts (ref, attempt_number, day, log, response_body)
    SELECT a.ref, a.attempt_number, a.day, a.log, a.response_body FROM %I a
    WHERE a.ref > $1 AND a.ref <= $2 AND EXISTS (SELECT FROM tasks t
      WHERE t.tenant_id = a.tenant_id AND t.task_id = a.task_id)', name)
    USING oldest.examined_ref, last_ref;
  UPDATE attempt_days SET examined_ref = last_ref WHERE day = oldest.day;
  RETURN true;
END $$;

-- Removes the tasks of these rows of ended_tasks, which are locked; their keys stay. The counts have a
-- slot that belongs to no node.
CREATE FUNCTION remove_tasks(places tid[]) RETURNS int LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  made steps;
BEGIN
  IF cardinality(places) = 0 THEN RETURN 0; END IF;
  WITH gone AS (
    DELETE FROM ended_tasks WHERE ctid = ANY (places)
    RETURNING ref, tenant_id, task_id, destination_id, status
  ), tasks_gone AS (
    DELETE FROM tasks t USING gone g WHERE t.tenant_id = g.tenant_id AND t.task_id = g.task_id
  ), labels_gone AS (
    DELETE FROM task_labels l USING gone g WHERE l.ref = g.ref
  ), attempts_gone AS (
    DELETE FROM kept_attempts a USING gone g WHERE a.ref = g.ref
  )
  SELECT array_agg(destination_id), array_agg(status), array_agg(-count) INTO made FROM (
    SELECT destination_id, status::int, count(*)::int FROM gone GROUP BY 1, 2) g;
  PERFORM add_counts('', made);
  RETURN -(SELECT sum(count) FROM unnest(made.counts) count);
END $$;

-- Removes tasks and keys, at most "max_count" together. "positions": where it begins among the tasks, the
-- dead letters and the keys, in the order of their ends, and where the next call may begin: before that,
-- nothing is left, except rows that another call has locked and those that are written later with an
-- earlier instant. Until a vacuum, the indexes have entries of removed rows, and a call that begins with
-- them takes longer the more there are. Not synced: what a crash brings back is removed again.
CREATE FUNCTION sweep_tasks(at bigint, ended_before bigint, dead_before bigint, max_count int,
  INOUT positions bigint[], OUT removed int)
LANGUAGE plpgsql
SET search_path FROM CURRENT SET lock_timeout = 3000 SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
DECLARE
  ended record;
  dead record;
  keys record;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  SELECT coalesce(array_agg(t.place), '{}') AS places, max(t.finished_at) AS last INTO ended FROM (
    SELECT e.ctid AS place, e.finished_at FROM ended_tasks e WHERE e.status IN (2, 4)
      AND e.finished_at >= positions[1] AND e.finished_at < ended_before
    ORDER BY e.finished_at LIMIT max_count FOR UPDATE SKIP LOCKED) t;
  removed := cardinality(ended.places);
  positions[1] := CASE WHEN removed < max_count THEN ended_before ELSE ended.last END;
  SELECT coalesce(array_agg(t.place), '{}') AS places, max(t.finished_at) AS last INTO dead FROM (
    SELECT e.ctid AS place, e.finished_at FROM ended_tasks e WHERE e.status = 3
      AND e.finished_at >= positions[2] AND e.finished_at < dead_before
    ORDER BY e.finished_at LIMIT max_count - removed FOR UPDATE SKIP LOCKED) t;
  removed := removed + cardinality(dead.places);
  positions[2] := CASE WHEN removed < max_count THEN dead_before
    ELSE coalesce(dead.last, positions[2]) END;
  PERFORM remove_tasks(ended.places || dead.places);
  SELECT coalesce(array_agg(t.place), '{}') AS places, max(t.expires_at) AS last INTO keys FROM (
    SELECT k.ctid AS place, k.expires_at FROM idempotency_keys k
    WHERE k.expires_at >= positions[3] AND k.expires_at <= at
    ORDER BY k.expires_at LIMIT max_count - removed FOR UPDATE SKIP LOCKED) t;
  removed := removed + cardinality(keys.places);
  positions[3] := CASE WHEN removed < max_count THEN at ELSE coalesce(keys.last, positions[3]) END;
  DELETE FROM idempotency_keys k WHERE k.ctid = ANY (keys.places);
END $$;

CREATE FUNCTION discard_tasks(tenant text, ids text[]) RETURNS int LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET lock_timeout = 3000
AS $$
BEGIN
  PERFORM make_durable();
  RETURN remove_tasks(ARRAY(SELECT t.ctid FROM ended_tasks t WHERE t.tenant_id = tenant
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

-- The same as isMeaningless in model/destination-row.ts.
CREATE FUNCTION is_meaningless(d destinations, at bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS
  'SELECT d.document IS NULL AND d.paused_at IS NULL AND d.gate_until <= at
    AND (d.breaker_state = ''CLOSED'' OR d.open_until + ${CIRCUIT_KEPT_MS} <= at)';

-- Removes a destination that nothing uses. The caller has the locks. One that an open transaction of a
-- caller uses, or a commit that writes or claims, is skipped.
CREATE FUNCTION remove_destination(tenant text, id int, at bigint) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  own_name text := (SELECT d.name FROM destinations d WHERE d.destination_id = id);
  gone int;
BEGIN
  IF NOT pg_try_advisory_xact_lock(item_lock('destination', tenant, own_name)) THEN RETURN 0; END IF;
  IF NOT pg_try_advisory_xact_lock(row_lock(tenant || chr(10) || own_name)) THEN RETURN 0; END IF;
  IF EXISTS (SELECT FROM counts c WHERE c.tenant_id = tenant AND c.destination_id = id
    GROUP BY c.status HAVING sum(c.count) <> 0) THEN RETURN 0; END IF;
  IF EXISTS (SELECT FROM tasks t WHERE t.destination_id = id) THEN RETURN 0; END IF;
  DELETE FROM counts c WHERE c.tenant_id = tenant AND c.destination_id = id;
  DELETE FROM destinations d WHERE d.destination_id = id AND is_meaningless(d, at)
  RETURNING d.version INTO gone;
  IF gone > 0 THEN
    INSERT INTO removed_versions AS r (version) VALUES (gone)
    ON CONFLICT (is_only) DO UPDATE SET version = greatest(r.version, excluded.version);
  END IF;
  RETURN (gone IS NOT NULL)::int;
END $$;

-- Examines destinations after an id: how many rows were removed, and the last id.
CREATE FUNCTION remove_unused_destinations(after_id int, max_count int, at bigint)
RETURNS TABLE (removed int, last_id int) LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET jit = off SET lock_timeout = 1000
AS $$
DECLARE
  page int[] := ARRAY(SELECT x.destination_id FROM destinations x
    WHERE x.destination_id > after_id ORDER BY x.destination_id LIMIT max_count);
  unused int[] := ARRAY(SELECT x.destination_id FROM destinations x
    WHERE x.destination_id = ANY (page) AND is_meaningless(x, at)
      AND NOT EXISTS (SELECT FROM tasks t WHERE t.destination_id = x.destination_id));
  d record;
BEGIN
  -- Before any row is changed: a commit takes the lock first, and its counts afterward.
  IF cardinality(unused) > 0 THEN
    PERFORM pg_advisory_xact_lock(creates_lock());
    PERFORM pg_advisory_xact_lock(versions_lock());
  END IF;
  removed := 0;
  last_id := page[cardinality(page)];
  FOR d IN SELECT x.destination_id, x.tenant_id FROM destinations x
    WHERE x.destination_id = ANY (page) ORDER BY x.destination_id
  LOOP
    removed := removed + merge_counts(d.tenant_id, d.destination_id);
    IF d.destination_id = ANY (unused) THEN
      removed := removed + remove_destination(d.tenant_id, d.destination_id, at);
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

-- A removal has two transactions, because the search takes long with many waiting tasks, and creates of all
-- tenants would wait for it. The first one marks the policy as removed, unless a task uses it. From then
-- on no create can use it.
CREATE FUNCTION mark_policy(tenant text, policy text, at bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET lock_timeout = 3000
AS $$
BEGIN
  PERFORM make_durable();
  IF NOT EXISTS (SELECT FROM policies p WHERE p.tenant_id = tenant AND p.policy_id = policy
    AND p.removed_at IS NULL) THEN RETURN false; END IF;
  IF is_policy_used(tenant, policy) THEN RETURN false; END IF;
  PERFORM pg_advisory_xact_lock(creates_lock());
  IF NOT pg_try_advisory_xact_lock(item_lock('policy', tenant, policy)) THEN RETURN false; END IF;
  UPDATE policies SET removed_at = at
  WHERE tenant_id = tenant AND policy_id = policy AND removed_at IS NULL;
  RETURN FOUND;
END $$;

-- The second one takes the mark back if a task was created between search and mark.
CREATE FUNCTION confirm_removal(tenant text, policy text, at bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET lock_timeout = 3000
AS $$
BEGIN
  PERFORM make_durable();
  IF NOT is_policy_used(tenant, policy) THEN RETURN true; END IF;
  UPDATE policies SET removed_at = NULL
  WHERE tenant_id = tenant AND policy_id = policy AND removed_at = at;
  RETURN false;
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
