/**
 * Commit functions: carry out a batch, claim waiting tasks, and find lanes and claims. New tasks and
 * settlements have files of their own.
 */

import { CREATE_ARGUMENTS, createNumber } from "./batch-cells.ts";
import { claimJson } from "./rows.ts";

// Claim functions: start the next attempts of waiting tasks, and find lanes and claims. Each claim
// reads the first entries of one index, whatever the number of destinations is.

/**
 * Claims from `partitions`, the earliest first in each, for the request `e` at the destination `d` of
 * `commit_batch`. Returns the state and payload of each task as one list in JSON, and its body.
 *
 * The version of the destination is tested by the statement that claims, so both are true at the same
 * instant. Rows that another transaction has locked are skipped, although only nodes that disagree
 * about who leases a partition can meet here. Tasks that are not due yet take only the first places.
 */
const CLAIM_STATEMENT = `RETURN QUERY
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

-- The lanes of the next waiting tasks of these partitions that are due within a time, after a position, at
-- most max_rows tasks. If there are more, the last row is the position of the last task, without a lane.
CREATE FUNCTION due_lanes(wanted int[], from_at bigint, before_at bigint, after_partition int,
  after_at bigint, after_ref bigint, max_rows int)
RETURNS TABLE (partition int, destination_id int, lane int, due_at bigint, last_ref bigint)
LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
  left_rows int := max_rows;
  start_at bigint;
  start_ref bigint;
  dues bigint[];
  refs bigint[];
  ids int[];
  lanes int[];
BEGIN
  FOR partition IN SELECT p FROM unnest(wanted) p WHERE p >= after_partition ORDER BY p LOOP
    start_at := CASE WHEN partition = after_partition THEN after_at ELSE from_at END;
    start_ref := CASE WHEN partition = after_partition THEN after_ref ELSE -1 END;
    SELECT array_agg(r.next_attempt_at), array_agg(r.ref), array_agg(r.destination_id),
      array_agg(r.lane) INTO dues, refs, ids, lanes
    FROM (SELECT w.next_attempt_at, w.ref, w.destination_id, w.lane FROM waiting_tasks w
      WHERE w.partition = partition AND (w.next_attempt_at, w.ref) > (start_at, start_ref)
        AND w.next_attempt_at < before_at
      ORDER BY w.next_attempt_at, w.ref LIMIT left_rows) r;
    CONTINUE WHEN dues IS NULL;
    FOR destination_id, lane, due_at IN
      SELECT r.id, r.l, min(r.at) FROM unnest(ids, lanes, dues) r (id, l, at) GROUP BY 1, 2
    LOOP
      RETURN NEXT;
    END LOOP;
    left_rows := left_rows - cardinality(dues);
    IF left_rows = 0 THEN
      destination_id := NULL;
      lane := NULL;
      due_at := dues[cardinality(dues)];
      last_ref := refs[cardinality(refs)];
      RETURN NEXT;
      RETURN;
    END IF;
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

// Commit functions: carry out a batch in one call, so that a commit is one round trip. The function
// returns a row per claimed task and per unusual result; `kind` says of what.

/** The rows that a commit returns. */
export const COMMIT_ROW = `
-- kind: null for a claimed task; otherwise the name of the item's list in the batch, or "refused" for
-- a new task that was to be claimed. Creates and settles have a row only if their result is not the
-- wanted one: a row per item would cost both sides more than the item itself.
CREATE TYPE commit_row AS (kind text, item int, data text, body bytea);
`;

export const COMMIT_FUNCTIONS = `
-- A commit is acknowledged only after it is on disk, whatever the server's default is.
CREATE FUNCTION make_durable() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
END $$;

-- Shared by commits that create tasks; exclusive for the removal of policies and destinations.
CREATE FUNCTION creates_lock() RETURNS bigint LANGUAGE sql STABLE AS
  'SELECT hashtextextended(current_schema(), 1)';

-- Exclusive while rows of destinations are removed, shared while one is written that does not exist. So
-- a node that was told the version of a row that does not exist never finds a row with that version.
CREATE FUNCTION versions_lock() RETURNS bigint LANGUAGE sql STABLE AS
  'SELECT hashtextextended(current_schema(), 7)';

-- The lock of the row of a destination: its tenant, a line feed, its name.
CREATE FUNCTION row_lock(name text) RETURNS bigint LANGUAGE sql STABLE AS
  'SELECT hashtextextended(current_schema() || name, 2)';

-- The version of a destination whose row no node has written, or was removed.
CREATE FUNCTION missing_version() RETURNS int LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN coalesce((SELECT r.version FROM removed_versions r), 0);
END $$;

CREATE FUNCTION destination_json(id int) RETURNS jsonb LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
  RETURN (SELECT jsonb_build_array(d.tenant_id, d.name,
    CASE d.version WHEN 0 THEN missing_version() ELSE d.version END, d.document, d.paused_at,
    d.gate_until, d.breaker_state, d.open_until, d.open_count)
  FROM destinations d WHERE d.destination_id = id);
END $$;

-- Writes a row over the version before it. The caller has the lock of the row. Returns the stored row if
-- that is another version.
CREATE FUNCTION write_destination(e jsonb) RETURNS int LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  wanted int := (e->>2)::int;
  stored int := (SELECT d.version FROM destinations d
    WHERE d.tenant_id = e->>0 AND d.name = e->>1);
BEGIN
  IF coalesce(stored, 0) = 0 THEN
    PERFORM pg_advisory_xact_lock_shared(versions_lock());
    INSERT INTO destinations (tenant_id, name) SELECT e->>0, e->>1 WHERE stored IS NULL
    ON CONFLICT DO NOTHING;
    stored := missing_version();
  END IF;
  UPDATE destinations SET version = wanted, document = e->>3, paused_at = (e->>4)::bigint,
    gate_until = (e->>5)::bigint, breaker_state = e->>6, open_until = (e->>7)::bigint,
    open_count = (e->>8)::int
  WHERE tenant_id = e->>0 AND name = e->>1 AND version IN (stored, 0) AND stored = wanted - 1;
  IF FOUND THEN RETURN NULL; END IF;
  RETURN (SELECT destination_id FROM destinations WHERE tenant_id = e->>0 AND name = e->>1);
END $$;

-- Locks the rows of destinations: exclusively if they are written, otherwise shared. The rows may not
-- exist yet, and a lock of a row would write to it, so these are locks of their names.
CREATE FUNCTION lock_rows(names jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  e jsonb;
  key bigint;
BEGIN
  FOR e IN SELECT * FROM jsonb_array_elements(names) LOOP
    key := row_lock(e->>0);
    IF (e->>1)::int = 1 THEN
      PERFORM pg_advisory_xact_lock(key);
    ELSE
      PERFORM pg_advisory_xact_lock_shared(key);
    END IF;
  END LOOP;
END $$;

-- Locks the tasks of settles, cancels and retryNows in the order of their names, and the sources of
-- redrives, so that commits never wait for each other in a circle. A commit that only settles locks in
-- the same order, while it settles.
CREATE FUNCTION lock_tasks(names jsonb, sources jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF names IS NOT NULL THEN
    PERFORM FROM claimed_tasks c WHERE (c.tenant_id, c.task_id) IN
      (SELECT e->>0, e->>1 FROM jsonb_array_elements(names) e)
    ORDER BY c.tenant_id, c.task_id FOR UPDATE;
    PERFORM FROM waiting_tasks w WHERE (w.tenant_id, w.task_id) IN
      (SELECT e->>0, e->>1 FROM jsonb_array_elements(names) e)
    ORDER BY w.tenant_id, w.task_id FOR UPDATE;
  END IF;
  IF sources IS NOT NULL THEN
    PERFORM FROM tasks t WHERE (t.tenant_id, t.task_id) IN
      (SELECT e->>0, e->>1 FROM jsonb_array_elements(sources) e)
    ORDER BY t.tenant_id, t.task_id FOR UPDATE;
  END IF;
END $$;

-- Creates those of the first items of a batch that can be created. "others": rows for the rest.
CREATE FUNCTION create_tasks(at bigint, node text, count int, known places, refused int[],
  have_all_policies boolean, ${CREATE_ARGUMENTS}, OUT made steps, OUT others commit_row[])
LANGUAGE plpgsql AS $$
DECLARE
  last_wave bigint := (SELECT max(${createNumber("wave")}) FROM generate_series(1, count) i);
  items int[];
  free int[];
BEGIN
  FOR current_wave IN 0..last_wave LOOP
    items := ARRAY(SELECT i FROM generate_series(1, count) i
      WHERE ${createNumber("wave")} = current_wave ORDER BY i);
    free := take_keys(items, have_all_policies, names, numbers, texts, bodies);
    others := others || ARRAY(SELECT ROW('creates', i,
        known_task(i, names, numbers, texts, bodies)::text, NULL)::commit_row
      FROM unnest(items) i WHERE i <> ALL (free));
    made := add_steps(made, insert_tasks(at, node, free, known, refused, names, numbers, texts,
      bodies));
  END LOOP;
END $$;

-- New tasks that were to be claimed, and the rows of their destinations, which refused it.
CREATE FUNCTION refused_claims(count int, known places, refused int[], numbers bigint[])
RETURNS SETOF commit_row LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY SELECT 'refused', i, destination_json(known.ids[${createNumber("place")}])::text,
    NULL::bytea
  FROM generate_series(1, count) i WHERE ${createNumber("claimVersion")} IS NOT NULL
    AND NOT may_claim(known.versions[${createNumber("place")}], ${createNumber("claimVersion")},
      known.ids[${createNumber("place")}] = ANY (refused));
END $$;

-- Inserts the tasks that follow ends. "causes" has, for each of them, the item and the status that is
-- its cause. They are the last of the new tasks: the first "skipped" ones are creates.
CREATE FUNCTION insert_followers(at bigint, node text, skipped int, causes jsonb, known places,
  verdicts verdict[], ${CREATE_ARGUMENTS})
RETURNS steps LANGUAGE plpgsql AS $$
DECLARE
  items int[] := ARRAY(SELECT (skipped + c.position)::int
    FROM jsonb_array_elements(causes) WITH ORDINALITY c (cause, position)
    WHERE (c.cause->>1)::int > 0 AND ROW((c.cause->>0)::int, (c.cause->>1)::int)::verdict
      = ANY (verdicts) ORDER BY c.position);
BEGIN
  IF cardinality(items) = 0 THEN RETURN NULL; END IF;
  RETURN insert_tasks(at, node, items, known, '{}', names, numbers, texts, bodies);
END $$;

CREATE FUNCTION write_document(e jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF e->>3 IS NULL THEN
    DELETE FROM documents WHERE kind = e->>0 AND tenant_id = e->>1 AND id = e->>2;
    RETURN;
  END IF;
  INSERT INTO documents AS d VALUES (e->>0, e->>1, e->>2, 1, e->>3)
  ON CONFLICT (kind, tenant_id, id) DO UPDATE SET version = d.version + 1, text = excluded.text;
END $$;
`;

// Commit batch function: carries out a batch in the order of the contract, by the functions of the
// other files. What every commit of a busy node has is in arrays; what is rare is in one JSON value.

/**
 * The settings are those of the statements inside: each of them finds its rows by an index, whatever
 * the planner knows of the tables. A plan is made once: the planner would prefer one for each length of
 * an array, which takes longer than a small commit.
 */
export const COMMIT_BATCH_FUNCTION = `
CREATE FUNCTION commit_batch(at bigint, expires_at bigint, kept_ms bigint, node text, rest jsonb,
  create_count int,
  ${CREATE_ARGUMENTS}, settle_numbers bigint[], settle_texts text[], settle_bodies bytea[])
RETURNS SETOF commit_row LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
SET plan_cache_mode = force_generic_plan SET lock_timeout = 3000
AS $$
DECLARE
  refused int[] := '{}';
  id int;
  e jsonb;
  known places;
  made steps;
  created record;
  settled record;
  canceled record;
  verdicts verdict[] := '{}';
  settle_count int := cardinality(settle_bodies);
  d record;
  partitions int[];
  may_start boolean;
  claimed_count int;
BEGIN
  IF expires_at < clock_ms() THEN
    RAISE EXCEPTION 'the commit arrived % ms after it had expired', clock_ms() - expires_at
      USING ERRCODE = 'RD002';
  END IF;
  IF current_setting('synchronous_commit') = 'off' THEN PERFORM make_durable(); END IF;
  IF settle_count > 0 AND NOT EXISTS (SELECT FROM attempt_days WHERE day = at / 86400000) THEN
    RAISE EXCEPTION 'no partition for attempts' USING ERRCODE = 'RD001';
  END IF;
  IF names IS NOT NULL THEN PERFORM pg_advisory_xact_lock_shared(creates_lock()); END IF;
  IF rest ? 'rowLocks' THEN PERFORM lock_rows(rest->'rowLocks'); END IF;
  IF rest ?| '{named,sources}' THEN PERFORM lock_tasks(rest->'named', rest->'sources'); END IF;
  IF rest ? 'destinations' THEN
    FOR e IN SELECT * FROM jsonb_array_elements(rest->'destinations') LOOP
      id := write_destination(e);
      IF id IS NOT NULL THEN
        refused := refused || id;
        RETURN NEXT ROW('destinations', (e->>9)::int, destination_json(id)::text, NULL)::commit_row;
      END IF;
    END LOOP;
  END IF;
  IF names IS NOT NULL THEN known := find_places(names); END IF;
  IF rest ? 'startsTasks' THEN
    PERFORM add_claimant(node);
    RETURN QUERY SELECT * FROM refused_claims(create_count, known, refused, numbers);
  END IF;
  IF create_count > 0 THEN
    IF rest ? 'isPlain' AND (NOT rest ? 'policies' OR have_policies(rest->'policies')) THEN
      made := insert_tasks(at, node, ARRAY(SELECT generate_series(1, create_count)), known, refused,
        names, numbers, texts, bodies);
    ELSE
      created := create_tasks(at, node, create_count, known, refused,
        NOT rest ? 'policies' OR have_policies(rest->'policies'), names, numbers, texts, bodies);
      made := created.made;
      RETURN QUERY SELECT o.* FROM unnest(created.others) o;
    END IF;
  END IF;
  IF settle_count > 0 THEN
    settled := settle_tasks(at, kept_ms, node, coalesce(rest ? 'followers', false), settle_count,
      settle_numbers, settle_texts, settle_bodies);
    made := add_steps(made, settled.made);
    IF settled.verdicts IS NOT NULL
      OR cardinality(settled.found_items) IS DISTINCT FROM settle_count THEN
      RETURN QUERY SELECT * FROM unusual_settles(settle_count, settled.found_items,
        settled.verdicts);
    END IF;
    IF rest ? 'followers' THEN
      made := add_steps(made, insert_followers(at, node, create_count, rest->'followers', known,
        settled.verdicts, names, numbers, texts, bodies));
    END IF;
  END IF;
  IF rest ? 'cancels' THEN
    FOR e IN SELECT * FROM jsonb_array_elements(rest->'cancels') LOOP
      canceled := cancel_task(at, kept_ms, e->>0, e->>1);
      IF canceled.made IS NOT NULL THEN
        verdicts := verdicts || ROW((e->>2)::int, 4)::verdict;
        made := add_steps(made, canceled.made);
      END IF;
      RETURN NEXT ROW('cancels', (e->>2)::int, canceled.result::text, NULL)::commit_row;
    END LOOP;
    IF rest ? 'canceledFollowers' THEN
      made := add_steps(made, insert_followers(at, node,
        create_count + jsonb_array_length(coalesce(rest->'followers', '[]')),
        rest->'canceledFollowers', known, verdicts, names, numbers, texts, bodies));
    END IF;
  END IF;
  IF rest ? 'retryNows' THEN
    FOR e IN SELECT * FROM jsonb_array_elements(rest->'retryNows') LOOP
      RETURN NEXT ROW('retryNows', (e->>2)::int, retry_now(at, e->>0, e->>1)::text, NULL)::commit_row;
    END LOOP;
  END IF;
  IF rest ? 'claims' THEN
    PERFORM add_claimant(node), set_config('bytea_output', 'escape', true);
    FOR e IN SELECT * FROM jsonb_array_elements(rest->'claims') LOOP
      partitions := ARRAY(SELECT p::int FROM jsonb_array_elements(e->4) p);
      SELECT destination_id, version INTO d FROM destinations
      WHERE tenant_id = e->>1 AND name = e->>2;
      IF may_claim(d.version, (e->>8)::int, d.destination_id = ANY (refused)) THEN
        ${CLAIM_STATEMENT}
        GET DIAGNOSTICS claimed_count = ROW_COUNT;
      ELSE
        claimed_count := 0;
      END IF;
      IF claimed_count > 0 THEN
        made := add_steps(made, ROW(ARRAY[d.destination_id, d.destination_id], ARRAY[0, 1],
          ARRAY[-claimed_count, claimed_count])::steps);
        may_start := true;
      ELSE
        may_start := (SELECT may_claim(x.version, (e->>8)::int, x.destination_id = ANY (refused))
          FROM destinations x WHERE x.destination_id = d.destination_id);
      END IF;
      RETURN NEXT ROW('claims', (e->>0)::int, jsonb_build_array(
        next_due_ats(d.destination_id, (e->>3)::int, partitions),
        CASE WHEN NOT may_start THEN destination_json(d.destination_id) END)::text, NULL)::commit_row;
    END LOOP;
  END IF;
  IF made IS NOT NULL THEN PERFORM add_counts(node, made); END IF;
  IF rest ? 'documents' THEN
    FOR e IN SELECT * FROM jsonb_array_elements(rest->'documents') LOOP
      PERFORM write_document(e);
    END LOOP;
  END IF;
END $$;
`;
