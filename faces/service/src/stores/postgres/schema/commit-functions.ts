/**
 * Commit functions: carry out a batch in one call, so that a commit is one round trip. The function
 * returns a row per result; `kind` says of what.
 */

export const COMMIT_FUNCTIONS = `
-- kind: the name of the item's list in the batch; "claimed" for each claimed task; "created" and
-- "settled" for all items of a list that have the usual result, in two arrays: one row per item would
-- cost both sides more than the item itself.
CREATE TYPE commit_row AS (kind text, item int, data text, payload text, body bytea);

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

CREATE FUNCTION destination_json(id int) RETURNS jsonb LANGUAGE plpgsql STABLE STRICT AS $$
BEGIN
  RETURN (SELECT jsonb_build_array(d.tenant_id, d.name, d.version, d.document, d.paused_at,
    d.gate_until, d.breaker_state, d.open_until, d.open_count)
  FROM destinations d WHERE d.destination_id = id);
END $$;

-- Writes a row over the version before it. Returns the stored row if that is another version.
CREATE FUNCTION write_destination(e jsonb) RETURNS int LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  wanted int := (e->>2)::int;
  id int;
BEGIN
  UPDATE destinations SET version = wanted, document = e->>3, paused_at = (e->>4)::bigint,
    gate_until = (e->>5)::bigint, breaker_state = e->>6, open_until = (e->>7)::bigint,
    open_count = (e->>8)::int
  WHERE tenant_id = e->>0 AND name = e->>1 AND version = wanted - 1;
  IF FOUND THEN RETURN NULL; END IF;
  INSERT INTO destinations (tenant_id, name) SELECT e->>0, e->>1
  WHERE NOT EXISTS (SELECT FROM destinations WHERE tenant_id = e->>0 AND name = e->>1)
  ON CONFLICT DO NOTHING RETURNING destination_id INTO id;
  IF id IS NOT NULL AND wanted = 1 THEN RETURN write_destination(e); END IF;
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
    key := hashtextextended(current_schema() || (e->>0), 2);
    IF (e->>1)::int = 1 THEN
      PERFORM pg_advisory_xact_lock(key);
    ELSE
      PERFORM pg_advisory_xact_lock_shared(key);
    END IF;
  END LOOP;
END $$;

-- Locks the tasks of settles, cancels and retryNows in the order of their refs, and the sources of
-- redrives, so that commits never wait for each other in a circle. A commit that only settles locks in
-- the same order, while it settles.
CREATE FUNCTION lock_tasks(refs jsonb, names jsonb, sources jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  wanted bigint[] := ARRAY(SELECT e::bigint FROM jsonb_array_elements(refs) e);
BEGIN
  IF names IS NOT NULL THEN
    wanted := wanted || ARRAY(SELECT t.ref FROM jsonb_array_elements(names) e
      JOIN tasks t ON t.tenant_id = e->>0 AND t.task_id = e->>1);
  END IF;
  PERFORM FROM open_tasks WHERE ref = ANY (wanted) ORDER BY ref FOR UPDATE;
  IF sources IS NOT NULL THEN
    PERFORM FROM tasks t WHERE (t.tenant_id, t.task_id) IN
      (SELECT e->>0, e->>1 FROM jsonb_array_elements(sources) e) ORDER BY t.ref FOR UPDATE;
  END IF;
END $$;

CREATE FUNCTION create_tasks(at bigint, node text, items new_task[], known places, refused int[],
  bytes bytea, have_all_policies boolean, is_plain boolean)
RETURNS SETOF commit_row LANGUAGE plpgsql AS $$
DECLARE
  last_wave int := (SELECT max(i.wave) FROM unnest(items) i);
  wave_items new_task[] := items;
  free int[];
  numbers int[];
  refs bigint[];
  refused_numbers int[];
  refusing_ids int[];
BEGIN
  FOR current_wave IN 0..last_wave LOOP
    IF last_wave > 0 THEN
      wave_items := ARRAY(SELECT i FROM unnest(items) i WHERE i.wave = current_wave);
    END IF;
    IF NOT (is_plain AND have_all_policies) THEN
      free := take_keys(wave_items, have_all_policies);
      RETURN QUERY SELECT 'creates', i.item, known_task(i)::text, NULL::text, NULL::bytea
        FROM unnest(wave_items) i WHERE i.item <> ALL (free);
      wave_items := ARRAY(SELECT i FROM unnest(wave_items) i WHERE i.item = ANY (free));
    END IF;
    -- A claimed task has a negative ref.
    SELECT array_agg(n.item), array_agg(CASE WHEN n.is_claimed THEN -n.ref ELSE n.ref END),
      array_agg(n.item) FILTER (WHERE n.refusing_id IS NOT NULL),
      array_agg(n.refusing_id) FILTER (WHERE n.refusing_id IS NOT NULL)
    INTO numbers, refs, refused_numbers, refusing_ids
    FROM insert_tasks(at, node, wave_items, known, refused, bytes) n;
    RETURN NEXT ROW('created', 0, numbers::text, refs::text, NULL)::commit_row;
    RETURN QUERY SELECT 'refused', r.item, destination_json(r.id)::text, NULL::text, NULL::bytea
      FROM unnest(refused_numbers, refusing_ids) r (item, id);
  END LOOP;
END $$;

CREATE FUNCTION insert_followers(at bigint, node text, items jsonb, known places,
  verdicts verdict[], bytes bytea)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  followers new_task[];
BEGIN
  SELECT array_agg(i) INTO followers FROM unnest(read_new_tasks(items)) i
  JOIN unnest(verdicts) v ON v.item = i.item AND v.status = i.cause_status AND v.status > 0;
  IF followers IS NOT NULL THEN
    PERFORM FROM insert_tasks(at, node, followers, known, '{}', bytes);
  END IF;
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

CREATE FUNCTION write_hints(node text, items jsonb) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  INSERT INTO hints AS h
  SELECT node, (e->>0)::int, e->>1, e->>2, (e->>3)::int, min((e->>4)::bigint), nextval('hint_ids')
  FROM jsonb_array_elements(items) e GROUP BY 2, 3, 4, 5 ORDER BY 2, 3, 4, 5
  ON CONFLICT (partition, tenant_id, destination, lane, node_id)
  DO UPDATE SET due_at = least(h.due_at, excluded.due_at), hint_id = excluded.hint_id;
END $$;

CREATE FUNCTION commit_batch(at bigint, kept_ms bigint, node text, batch jsonb, bytes bytea)
RETURNS SETOF commit_row LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
SET lock_timeout = 3000
AS $$
DECLARE
  refused int[] := '{}';
  id int;
  e jsonb;
  result jsonb;
  verdicts verdict[];
  known places;
  row_count int;
  claimed_ids int[] := '{}';
  claimed_counts int[] := '{}';
BEGIN
  PERFORM make_durable();
  IF batch ? 'settles' AND NOT EXISTS (SELECT FROM attempt_days WHERE day = at / 86400000) THEN
    RAISE EXCEPTION 'no partition for attempts' USING ERRCODE = 'RD001';
  END IF;
  IF batch ? 'names' THEN
    PERFORM pg_advisory_xact_lock_shared(creates_lock());
  END IF;
  IF batch ? 'rowLocks' THEN PERFORM lock_rows(batch->'rowLocks'); END IF;
  IF batch ?| '{locked,named,sources}' THEN
    PERFORM lock_tasks(batch->'locked', batch->'named', batch->'sources');
  END IF;
  FOR e IN SELECT * FROM jsonb_array_elements(batch->'destinations') LOOP
    id := write_destination(e);
    IF id IS NOT NULL THEN
      refused := refused || id;
      RETURN NEXT ROW('destinations', (e->>9)::int, destination_json(id)::text, NULL, NULL)::commit_row;
    END IF;
  END LOOP;
  IF batch ? 'names' THEN known := find_places(batch->'names'); END IF;
  IF batch ? 'creates' THEN
    RETURN QUERY SELECT * FROM create_tasks(at, node, read_new_tasks(batch->'creates'), known,
      refused, bytes, have_policies(batch->'policies'), (batch->>'isPlain')::boolean);
  END IF;
  IF batch ? 'settles' THEN
    verdicts := settle_tasks(at, kept_ms, node, read_settlements(batch->'settles'), bytes);
    RETURN QUERY SELECT 'settled', 0, array_agg(v.item)::text, array_agg(v.status)::text, NULL::bytea
      FROM unnest(verdicts) v;
    IF batch ? 'followers' THEN
      PERFORM insert_followers(at, node, batch->'followers', known, verdicts, bytes);
    END IF;
  END IF;
  verdicts := '{}';
  FOR e IN SELECT * FROM jsonb_array_elements(batch->'cancels') LOOP
    result := cancel_task(at, kept_ms, node, e->>0, e->>1);
    IF result ? 'cancelled' AND result->>1 = '4' THEN
      verdicts := verdicts || ROW((e->>2)::int, 4)::verdict;
    END IF;
    RETURN NEXT ROW('cancels', (e->>2)::int, result::text, NULL, NULL)::commit_row;
  END LOOP;
  IF batch ? 'canceledFollowers' THEN
    PERFORM insert_followers(at, node, batch->'canceledFollowers', known, verdicts,
      bytes);
  END IF;
  FOR e IN SELECT * FROM jsonb_array_elements(batch->'retryNows') LOOP
    RETURN NEXT ROW('retryNows', (e->>2)::int, retry_now(at, e->>0, e->>1)::text, NULL, NULL)::commit_row;
  END LOOP;
  FOR e IN SELECT * FROM jsonb_array_elements(batch->'claims') LOOP
    RETURN QUERY SELECT * FROM claim_tasks(at, node, e, refused);
    -- The last row is not a task.
    GET DIAGNOSTICS row_count = ROW_COUNT;
    IF row_count > 1 THEN
      claimed_counts := claimed_counts || row_count - 1;
      claimed_ids := claimed_ids || (SELECT d.destination_id FROM destinations d
        WHERE d.tenant_id = e->>1 AND d.name = e->>2);
    END IF;
  END LOOP;
  IF cardinality(claimed_ids) > 0 THEN PERFORM count_claims(node, claimed_ids, claimed_counts); END IF;
  IF batch ? 'hints' THEN PERFORM write_hints(node, batch->'hints'); END IF;
  FOR e IN SELECT * FROM jsonb_array_elements(batch->'documents') LOOP
    PERFORM write_document(e);
  END LOOP;
END $$;
`;
