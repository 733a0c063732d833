/**
 * Commit functions: carry out a batch in one call, so that a commit is one round trip. The function
 * returns a row per claimed task and per unusual result; `kind` says of what.
 */
import { CREATE_ARGUMENTS, createNumber } from "./batch-cells.ts";

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

CREATE FUNCTION write_hints(node text, items jsonb) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  INSERT INTO hints AS h
  SELECT node, (e->>0)::int, e->>1, e->>2, (e->>3)::int, min((e->>4)::bigint), nextval('hint_ids')
  FROM jsonb_array_elements(items) e GROUP BY 2, 3, 4, 5 ORDER BY 2, 3, 4, 5
  ON CONFLICT (partition, tenant_id, destination, lane, node_id)
  DO UPDATE SET due_at = least(h.due_at, excluded.due_at), hint_id = excluded.hint_id;
END $$;
`;
