-- A PostgreSQL store of schema 2, as that version wrote it: its migrations, and rows of every kind.


CREATE SEQUENCE task_refs;
CREATE SEQUENCE hint_ids;

CREATE TABLE destinations (
  destination_id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  version int NOT NULL DEFAULT 0,
  document text,
  paused_at bigint,
  gate_until bigint NOT NULL DEFAULT 0,
  breaker_state text NOT NULL DEFAULT 'CLOSED',
  open_until bigint NOT NULL DEFAULT 0,
  open_count int NOT NULL DEFAULT 0,
  UNIQUE (tenant_id, name)
);
CREATE INDEX destinations_open ON destinations (tenant_id, name) WHERE breaker_state <> 'CLOSED';

CREATE TABLE tasks (
  ref bigint PRIMARY KEY,
  created_at bigint NOT NULL,
  finished_at bigint,
  next_attempt_at bigint,
  last_delay_ms bigint,
  cancel_requested_at bigint,
  destination_id int NOT NULL,
  policy_version int NOT NULL,
  attempt_number int,
  claim_epoch int,
  abandoned_count int,
  last_status int,
  status smallint NOT NULL DEFAULT 0,
  lane smallint,
  tenant_id text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  policy_id text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C",
  reason text,
  last_error text,
  redriven_to text COLLATE "C",
  UNIQUE (tenant_id, task_id)
) WITH (fillfactor = 90);
CREATE INDEX tasks_open ON tasks (tenant_id, task_id) INCLUDE (policy_id) WHERE status = 0;
CREATE INDEX tasks_dead ON tasks (tenant_id, task_id) WHERE status = 3;
CREATE INDEX tasks_canceled ON tasks (tenant_id, task_id) WHERE status = 4;
CREATE INDEX tasks_of_destination ON tasks (destination_id, task_id);
CREATE INDEX tasks_dead_of_destination ON tasks (destination_id, task_id) WHERE status = 3;
CREATE INDEX tasks_of_key ON tasks (tenant_id, idempotency_key, task_id)
  WHERE idempotency_key IS NOT NULL;
CREATE INDEX tasks_of_policy ON tasks (tenant_id, policy_id) WHERE policy_version > 0;
CREATE INDEX tasks_ended ON tasks (finished_at) WHERE status IN (2, 4);
CREATE INDEX tasks_dead_ended ON tasks (finished_at) WHERE status = 3;

CREATE TABLE open_tasks (
  ref bigint PRIMARY KEY,
  next_attempt_at bigint NOT NULL,
  claimed_at bigint,
  last_delay_ms bigint NOT NULL DEFAULT 0,
  cancel_requested_at bigint,
  destination_id int NOT NULL,
  attempt_number int NOT NULL,
  claim_epoch int NOT NULL,
  abandoned_count int NOT NULL DEFAULT 0,
  last_status int,
  partition smallint NOT NULL,
  lane smallint NOT NULL DEFAULT 0,
  status smallint NOT NULL,
  claimed_by text COLLATE "C",
  last_error text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX open_tasks_due ON open_tasks (partition, destination_id, lane, next_attempt_at, ref)
  WHERE status = 0;
CREATE INDEX open_tasks_claimed ON open_tasks (claimed_by, partition) WHERE status = 1;

CREATE TABLE payloads (
  ref bigint PRIMARY KEY,
  payload text NOT NULL,
  body bytea
);

CREATE TABLE task_labels (
  tenant_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  value text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  ref bigint NOT NULL
);
CREATE INDEX task_labels_of_value ON task_labels (tenant_id, name, value, task_id);
CREATE INDEX task_labels_of_task ON task_labels (ref);

CREATE TABLE idempotency_keys (
  tenant_id text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  task_id text COLLATE "C" NOT NULL,
  fingerprint text COLLATE "C" NOT NULL,
  expires_at bigint,
  PRIMARY KEY (tenant_id, idempotency_key)
) WITH (fillfactor = 80);
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at)
  WHERE expires_at IS NOT NULL;

CREATE TABLE attempts (
  ref bigint NOT NULL,
  attempt_number int NOT NULL,
  day int NOT NULL,
  log text NOT NULL,
  response_body bytea
) PARTITION BY LIST (day);
CREATE INDEX attempts_of_task ON attempts (ref, attempt_number);

-- The days that have a partition, and how far each one was examined before its removal.
CREATE TABLE attempt_days (
  day int PRIMARY KEY,
  examined_ref bigint NOT NULL DEFAULT 0
);

-- Attempts of tasks that are kept longer than the partition of the attempt.
CREATE TABLE kept_attempts (
  ref bigint NOT NULL,
  attempt_number int NOT NULL,
  day int NOT NULL,
  log text NOT NULL,
  response_body bytea
);
CREATE INDEX kept_attempts_of_task ON kept_attempts (ref, attempt_number);

-- One slot per node that writes, so that nodes never wait for each other. The sum is the count.
CREATE TABLE counts (
  tenant_id text COLLATE "C" NOT NULL,
  destination_id int NOT NULL,
  status smallint NOT NULL,
  node_id text COLLATE "C" NOT NULL,
  count bigint NOT NULL,
  PRIMARY KEY (tenant_id, destination_id, status, node_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

CREATE TABLE policies (
  tenant_id text COLLATE "C" NOT NULL,
  policy_id text COLLATE "C" NOT NULL,
  version int NOT NULL,
  document text NOT NULL,
  created_at bigint NOT NULL,
  removed_at bigint,
  PRIMARY KEY (tenant_id, policy_id, version)
);

CREATE TABLE documents (
  kind text COLLATE "C" NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  version int NOT NULL,
  text text NOT NULL,
  PRIMARY KEY (kind, tenant_id, id)
);

CREATE TABLE nodes (
  node_id text COLLATE "C" PRIMARY KEY,
  lease_until bigint NOT NULL,
  takes_all boolean NOT NULL,
  is_leaving boolean NOT NULL
) WITH (fillfactor = 50);

-- One row per writing node and lane, so that writers never wait for each other.
CREATE TABLE hints (
  node_id text COLLATE "C" NOT NULL,
  partition smallint NOT NULL,
  tenant_id text COLLATE "C" NOT NULL,
  destination text COLLATE "C" NOT NULL,
  lane smallint NOT NULL,
  due_at bigint NOT NULL,
  hint_id bigint NOT NULL,
  PRIMARY KEY (partition, tenant_id, destination, lane, node_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
CREATE UNIQUE INDEX hints_of_id ON hints (hint_id);

-- What all nodes share of a destination. The row is locked while shares are granted.
CREATE TABLE limits (
  tenant_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  next_token_at double precision NOT NULL DEFAULT 0,
  next_retry_token_at double precision NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant_id, name)
) WITH (fillfactor = 50);

-- What a node has of a destination, and what it reported last.
CREATE TABLE shares (
  tenant_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  node_id text COLLATE "C" NOT NULL,
  slots int NOT NULL,
  used int NOT NULL,
  retry_slots int NOT NULL,
  retry_used int NOT NULL,
  calls double precision NOT NULL,
  failures double precision NOT NULL,
  slow_calls double precision NOT NULL,
  demand double precision NOT NULL,
  PRIMARY KEY (tenant_id, name, node_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);


CREATE TYPE new_task AS (
  item int, wave int, tenant_id text, task_id text, place int, idempotency_key text,
  fingerprint text, policy_id text, policy_version int, created_at bigint, scheduled_at bigint,
  redriven_from text, claim_version int, partition int, payload text, body_at int,
  body_length int, labels jsonb, cause_status int
);

CREATE FUNCTION read_new_tasks(items jsonb) RETURNS new_task[] LANGUAGE plpgsql AS $$
BEGIN
  RETURN (SELECT array_agg(ROW((e->>0)::int, (e->>1)::int, e->>2, e->>3, (e->>4)::int, e->>5, e->>6,
    e->>7, (e->>8)::int, (e->>9)::bigint, (e->>10)::bigint, e->>11, (e->>12)::int, (e->>13)::int,
    e->>14, (e->>15)::int, (e->>16)::int, nullif(e->17, 'null'), (e->>18)::int)::new_task)
  FROM jsonb_array_elements(items) e);
END $$;

-- A part of the bytes of a batch; null without a length.
CREATE FUNCTION part_of(bytes bytea, start int, length int) RETURNS bytea LANGUAGE sql IMMUTABLE AS
  'SELECT substring(bytes FROM start + 1 FOR length)';

-- The destinations of the tasks of a batch. A task has the place of its destination in them.
CREATE TYPE places AS (ids int[], versions int[]);

CREATE FUNCTION find_places(names jsonb) RETURNS places LANGUAGE plpgsql AS $$
DECLARE
  found places;
BEGIN
  SELECT array_agg(d.destination_id ORDER BY n.place), array_agg(d.version ORDER BY n.place)
  INTO found FROM jsonb_array_elements(names) WITH ORDINALITY n (name, place)
  LEFT JOIN destinations d ON d.tenant_id = n.name->>0 AND d.name = n.name->>1;
  IF array_position(found.ids, NULL) IS NULL THEN RETURN found; END IF;
  INSERT INTO destinations (tenant_id, name)
  SELECT n->>0, n->>1 FROM jsonb_array_elements(names) n
  WHERE NOT EXISTS (SELECT FROM destinations d WHERE d.tenant_id = n->>0 AND d.name = n->>1)
  ORDER BY (n->>0) COLLATE "C", (n->>1) COLLATE "C" ON CONFLICT DO NOTHING;
  RETURN find_places(names);
END $$;

-- A claim needs the version that its node knows. Version 0: no node has written the row.
CREATE FUNCTION may_claim(stored int, wanted int, is_refused boolean) RETURNS boolean
LANGUAGE sql IMMUTABLE AS 'SELECT stored = 0 OR (stored = wanted AND NOT is_refused)';

CREATE FUNCTION insert_tasks(at bigint, node text, items new_task[], known places, refused int[],
  bytes bytea)
RETURNS TABLE (item int, ref bigint, is_claimed boolean, refusing_id int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH fresh AS MATERIALIZED (
    SELECT nextval('task_refs') AS ref, one.* FROM (
      SELECT i.*, known.ids[i.place] AS destination_id,
        i.claim_version IS NOT NULL AND may_claim(known.versions[i.place], i.claim_version,
          known.ids[i.place] = ANY (refused)) AS is_claimed
      FROM unnest(items) i ORDER BY i.item
    ) one
  ), stored AS (
    INSERT INTO tasks (ref, created_at, destination_id, policy_version, tenant_id, task_id,
      policy_id, idempotency_key)
    SELECT ref, created_at, destination_id, policy_version, tenant_id, task_id, policy_id,
      idempotency_key FROM fresh
  ), opened AS (
    INSERT INTO open_tasks (ref, next_attempt_at, claimed_at, destination_id, attempt_number,
      claim_epoch, partition, status, claimed_by)
    SELECT ref, scheduled_at, CASE WHEN is_claimed THEN at END, destination_id, is_claimed::int,
      is_claimed::int, partition, is_claimed::int, CASE WHEN is_claimed THEN node END FROM fresh
  ), paid AS (
    INSERT INTO payloads
    SELECT ref, payload, part_of(bytes, body_at, body_length) FROM fresh
  ), labeled AS (
    INSERT INTO task_labels
    SELECT f.tenant_id, l->>0, l->>1, f.task_id, f.ref
    FROM fresh f CROSS JOIN LATERAL jsonb_array_elements(f.labels) l WHERE f.labels IS NOT NULL
  ), counted AS (
    INSERT INTO counts AS c
    SELECT tenant_id, destination_id, is_claimed::int, node, count(*) FROM fresh
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (tenant_id, destination_id, status, node_id)
    DO UPDATE SET count = c.count + excluded.count
  )
  SELECT f.item, f.ref, f.is_claimed,
    CASE WHEN f.claim_version IS NOT NULL AND NOT f.is_claimed THEN f.destination_id END
  FROM fresh f;
END $$;

CREATE FUNCTION has_policy(tenant text, policy text, wanted int) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (SELECT FROM policies p WHERE p.tenant_id = tenant
    AND p.policy_id = policy AND p.version = wanted AND p.removed_at IS NULL);
END $$;

-- Do all these policies exist? Tasks of one batch mostly have the same one.
CREATE FUNCTION have_policies(names jsonb) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN NOT EXISTS (SELECT FROM jsonb_array_elements(names) e
    WHERE NOT has_policy(e->>0, e->>1, (e->>2)::int));
END $$;

CREATE FUNCTION is_redriven(tenant text, source text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (SELECT FROM tasks t WHERE t.tenant_id = tenant AND t.task_id = source
    AND t.redriven_to IS NOT NULL);
END $$;

-- The items whose policy exists, and whose source and key are free and are taken now.
CREATE FUNCTION take_keys(items new_task[], have_all_policies boolean) RETURNS int[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  free_items int[];
BEGIN
  WITH good AS MATERIALIZED (
    SELECT i.* FROM unnest(items) i
    WHERE (have_all_policies OR i.policy_version = 0
        OR has_policy(i.tenant_id, i.policy_id, i.policy_version))
      AND (i.redriven_from IS NULL OR NOT is_redriven(i.tenant_id, i.redriven_from))
  ), taken AS (
    INSERT INTO idempotency_keys
    SELECT tenant_id, idempotency_key, task_id, fingerprint FROM good WHERE fingerprint IS NOT NULL
    ORDER BY tenant_id COLLATE "C", idempotency_key COLLATE "C"
    ON CONFLICT DO NOTHING RETURNING tenant_id, task_id
  ), free AS MATERIALIZED (
    -- An array: a join of two lists without an index takes the square of their length.
    SELECT g.* FROM good g WHERE g.fingerprint IS NULL OR g.tenant_id || E'\n' || g.task_id
      = ANY (ARRAY(SELECT k.tenant_id || E'\n' || k.task_id FROM taken k))
  ), marked AS (
    UPDATE tasks t SET redriven_to = f.task_id FROM free f
    WHERE f.redriven_from IS NOT NULL AND t.tenant_id = f.tenant_id AND t.task_id = f.redriven_from
  )
  SELECT coalesce(array_agg(item), '{}') INTO free_items FROM free;
  RETURN free_items;
END $$;

-- Why an item was not created. The key may have been removed since: then the batch is repeated.
CREATE FUNCTION known_task(one new_task) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  known record;
BEGIN
  SELECT k.task_id, k.fingerprint = one.fingerprint AS is_same INTO known FROM idempotency_keys k
  WHERE one.fingerprint IS NOT NULL AND k.tenant_id = one.tenant_id
    AND k.idempotency_key = one.idempotency_key;
  IF FOUND THEN
    RETURN jsonb_build_array(CASE WHEN known.is_same THEN 'replayed' ELSE 'conflict' END,
      known.task_id);
  END IF;
  SELECT t.redriven_to INTO known FROM tasks t
  WHERE t.tenant_id = one.tenant_id AND t.task_id = one.redriven_from
    AND t.redriven_to IS NOT NULL;
  IF FOUND THEN
    RETURN jsonb_build_array('redriven', known.redriven_to);
  END IF;
  IF one.policy_version = 0
    OR has_policy(one.tenant_id, one.policy_id, one.policy_version) THEN
    RAISE EXCEPTION 'the key was removed during the commit' USING ERRCODE = '40001';
  END IF;
  RETURN jsonb_build_array('unknown-policy');
END $$;


CREATE TYPE settlement AS (
  item int, wave int, ref bigint, tenant_id text, task_id text, claim_epoch int, status int,
  reason text, lane int, next_attempt_at bigint, last_delay_ms bigint, abandoned_count int,
  attempt_number int, log text, body_at int, body_length int, last_status int,
  has_error boolean, last_error text
);

-- The final status of an item; its tasks that follow the end are inserted after it.
CREATE TYPE verdict AS (item int, status int);

CREATE FUNCTION read_settlements(items jsonb) RETURNS settlement[] LANGUAGE plpgsql AS $$
BEGIN
  RETURN (SELECT array_agg(ROW((e->>0)::int, (e->>1)::int, (e->>2)::bigint, e->>3, e->>4,
    (e->>5)::int, (e->>6)::int, e->>7, (e->>8)::int, (e->>9)::bigint, (e->>10)::bigint,
    (e->>11)::int, (e->>12)::int, e->>13, (e->>14)::int, (e->>15)::int, (e->>16)::int,
    (e->>17)::boolean, e->>18)::settlement)
  FROM jsonb_array_elements(items) e);
END $$;

-- Adds steps to the counts of a node: -1 for the status that a task leaves, 1 for its new one.
CREATE FUNCTION add_counts(node text, destination_ids int[], statuses int[], steps int[])
RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  INSERT INTO counts AS c
  SELECT d.tenant_id, d.destination_id, s.status, node, sum(s.step)
  FROM unnest(destination_ids, statuses, steps) s (destination_id, status, step)
  JOIN destinations d ON d.destination_id = s.destination_id
  GROUP BY 1, 2, 3 HAVING sum(s.step) <> 0 ORDER BY 1, 2, 3
  ON CONFLICT (tenant_id, destination_id, status, node_id)
  DO UPDATE SET count = c.count + excluded.count;
END $$;

-- So many waiting tasks of each destination were claimed.
CREATE FUNCTION count_claims(node text, destination_ids int[], claimed int[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  size int[] := ARRAY[cardinality(destination_ids)];
BEGIN
  PERFORM add_counts(node, destination_ids || destination_ids,
    array_fill(0, size) || array_fill(1, size), ARRAY(SELECT -c FROM unnest(claimed) c) || claimed);
END $$;

-- Settles each task at most once; items of the same task have different waves. The rows are locked and
-- found once, and then reached by their place: each search in an index costs as much as the write.
CREATE FUNCTION settle_wave(at bigint, kept_ms bigint, node text, items settlement[], bytes bytea)
RETURNS verdict[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  verdicts verdict[];
  destination_ids int[];
  statuses int[];
BEGIN
  WITH found AS MATERIALIZED (
    SELECT s.*, o.ctid AS open_place, t.ctid AS task_place, o.destination_id,
      o.next_attempt_at AS due_at, o.cancel_requested_at,
      o.attempt_number - (s.attempt_number IS NULL)::int AS attempts,
      CASE WHEN s.attempt_number IS NULL THEN o.last_status ELSE s.last_status END AS new_status,
      CASE WHEN s.has_error THEN s.last_error ELSE o.last_error END AS new_error,
      CASE WHEN o.cancel_requested_at IS NOT NULL AND s.status <> 2 THEN 4 ELSE s.status END
        AS final
    FROM unnest(items) s
    -- "claimed_by" instead of the status: the planner may not use the index of claims for this.
    JOIN open_tasks o ON o.ref = s.ref AND o.claimed_by IS NOT NULL
      AND o.claim_epoch = s.claim_epoch
    JOIN tasks t ON t.ref = s.ref AND t.tenant_id = s.tenant_id AND t.task_id = s.task_id
    FOR UPDATE OF o
  ), logged AS (
    INSERT INTO attempts
    SELECT ref, attempt_number, at / 86400000, log, part_of(bytes, body_at, body_length)
    FROM found WHERE attempt_number IS NOT NULL
  ), waiting AS (
    UPDATE open_tasks o SET status = 0, lane = f.lane, next_attempt_at = f.next_attempt_at,
      attempt_number = f.attempts, claim_epoch = f.claim_epoch + 1, claimed_by = NULL,
      claimed_at = NULL, last_delay_ms = f.last_delay_ms, abandoned_count = f.abandoned_count,
      last_status = f.new_status, last_error = f.new_error
    FROM found f WHERE o.ctid = f.open_place AND f.final = 0
  ), closed AS (
    DELETE FROM open_tasks o USING found f WHERE o.ctid = f.open_place AND f.final <> 0
  ), ended AS (
    UPDATE tasks t SET status = f.final, lane = f.lane, next_attempt_at = f.due_at,
      reason = CASE WHEN f.final = f.status THEN f.reason ELSE 'aborted' END,
      attempt_number = f.attempts, claim_epoch = f.claim_epoch + 1,
      last_delay_ms = f.last_delay_ms, abandoned_count = f.abandoned_count,
      cancel_requested_at = f.cancel_requested_at, last_status = f.new_status,
      last_error = f.new_error, finished_at = at
    FROM found f WHERE t.ctid = f.task_place AND f.final <> 0
    RETURNING t.tenant_id, t.task_id, t.idempotency_key
  ), expiring AS (
    UPDATE idempotency_keys k SET expires_at = at + kept_ms FROM ended e
    WHERE e.idempotency_key IS NOT NULL AND k.tenant_id = e.tenant_id
      AND k.idempotency_key = e.idempotency_key AND k.task_id = e.task_id
  )
  SELECT array_agg(ROW(item, final)::verdict), array_agg(destination_id), array_agg(final)
  INTO verdicts, destination_ids, statuses FROM found;
  IF verdicts IS NULL THEN RETURN '{}'; END IF;
  PERFORM add_counts(node, destination_ids || destination_ids,
    array_fill(1, ARRAY[cardinality(statuses)]) || statuses,
    array_fill(-1, ARRAY[cardinality(statuses)]) || array_fill(1, ARRAY[cardinality(statuses)]));
  RETURN verdicts;
END $$;

CREATE FUNCTION settle_tasks(at bigint, kept_ms bigint, node text, items settlement[], bytes bytea)
RETURNS verdict[] LANGUAGE plpgsql AS $$
DECLARE
  verdicts verdict[] := '{}';
  last_wave int := (SELECT max(i.wave) FROM unnest(items) i);
BEGIN
  IF last_wave = 0 THEN RETURN settle_wave(at, kept_ms, node, items, bytes); END IF;
  FOR current_wave IN 0..last_wave LOOP
    verdicts := verdicts || settle_wave(at, kept_ms, node,
      ARRAY(SELECT i FROM unnest(items) i WHERE i.wave = current_wave), bytes);
  END LOOP;
  RETURN verdicts;
END $$;

-- Ends a waiting task as canceled. The row of open_tasks is removed.
CREATE FUNCTION cancel_waiting(at bigint, kept_ms bigint, node text, wanted bigint) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  o open_tasks;
  t record;
BEGIN
  DELETE FROM open_tasks WHERE ref = wanted RETURNING * INTO o;
  UPDATE tasks SET status = 4, reason = 'aborted', lane = o.lane,
    next_attempt_at = o.next_attempt_at, attempt_number = o.attempt_number,
    claim_epoch = o.claim_epoch, last_delay_ms = o.last_delay_ms,
    abandoned_count = o.abandoned_count, cancel_requested_at = o.cancel_requested_at,
    last_status = o.last_status, last_error = o.last_error, finished_at = at
  WHERE ref = wanted RETURNING tenant_id, task_id, idempotency_key INTO t;
  UPDATE idempotency_keys SET expires_at = at + kept_ms WHERE tenant_id = t.tenant_id
    AND idempotency_key = t.idempotency_key AND task_id = t.task_id;
  PERFORM add_counts(node, ARRAY[o.destination_id, o.destination_id], ARRAY[0, 4], ARRAY[-1, 1]);
END $$;

-- The result of a cancel: its kind, and a status or an instant.
CREATE FUNCTION cancel_task(at bigint, kept_ms bigint, node text, tenant text, task text)
RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  found record;
BEGIN
  SELECT t.ref, t.status, o.status AS open_status, o.cancel_requested_at INTO found
  FROM tasks t LEFT JOIN open_tasks o ON o.ref = t.ref
  WHERE t.tenant_id = tenant AND t.task_id = task;
  IF found IS NULL OR found.ref IS NULL THEN RETURN '["unknown"]'; END IF;
  IF found.status = 4 THEN RETURN '["cancelled"]'; END IF;
  IF found.status <> 0 THEN RETURN jsonb_build_array('ended', found.status); END IF;
  IF found.open_status = 0 THEN
    PERFORM cancel_waiting(at, kept_ms, node, found.ref);
    RETURN '["cancelled", 4]';
  END IF;
  UPDATE open_tasks SET cancel_requested_at = coalesce(cancel_requested_at, at)
  WHERE ref = found.ref AND cancel_requested_at IS NULL;
  RETURN jsonb_build_array('requested', coalesce(found.cancel_requested_at, at));
END $$;

CREATE FUNCTION retry_now(at bigint, tenant text, task text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  found record;
BEGIN
  SELECT t.ref, t.status, o.status AS open_status, o.lane, o.next_attempt_at, d.name INTO found
  FROM tasks t JOIN destinations d ON d.destination_id = t.destination_id
  LEFT JOIN open_tasks o ON o.ref = t.ref WHERE t.tenant_id = tenant AND t.task_id = task;
  IF found.ref IS NULL THEN RETURN '["unknown"]'; END IF;
  IF found.status <> 0 THEN RETURN jsonb_build_array('not-pending', found.status); END IF;
  IF found.open_status <> 0 THEN RETURN jsonb_build_array('not-pending', found.open_status); END IF;
  UPDATE open_tasks SET next_attempt_at = at WHERE ref = found.ref AND next_attempt_at > at;
  RETURN jsonb_build_array('rescheduled', found.name, found.lane);
END $$;


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


CREATE FUNCTION clock_ms() RETURNS bigint LANGUAGE sql VOLATILE AS
  'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint';

-- Shared by exchanges that change nothing in the list of nodes; exclusive for the others.
CREATE FUNCTION nodes_lock() RETURNS bigint LANGUAGE sql STABLE AS
  'SELECT hashtextextended(current_schema(), 2)';

-- Reserves tokens of a rate, as reserveRate does in node-report.ts: its start, count and next token.
CREATE FUNCTION reserve_rate(use jsonb, next_at double precision, at bigint)
RETURNS double precision[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  interval_ms double precision := 1000.0::double precision / (use->>0)::double precision;
  start_at double precision;
  token_count double precision;
BEGIN
  IF interval_ms IS NULL THEN RETURN ARRAY[NULL, 0, next_at]; END IF;
  start_at := greatest(next_at, at - ((use->>1)::double precision - 1) * interval_ms);
  token_count := least((use->>2)::double precision,
    floor((at + 1000 - start_at) / interval_ms) + 1);
  IF token_count <= 0 THEN RETURN ARRAY[NULL, 0, next_at]; END IF;
  RETURN ARRAY[start_at, token_count, start_at + token_count * interval_ms];
END $$;

-- A node that is granted a part of a limit: at most what the other nodes leave.
CREATE FUNCTION grant_slots(use jsonb, taken bigint) RETURNS int LANGUAGE sql IMMUTABLE AS
  'SELECT greatest(0, least((use->>1)::int, (use->>0)::int - taken))::int';

CREATE FUNCTION is_free(use jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE AS
  'SELECT coalesce((use->>1)::int + (use->>2)::int, 0) = 0';

-- The node gives up its share.
CREATE FUNCTION is_unused(report jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE AS
  'SELECT (report->>7)::float8 = 0 AND is_free(report->8) AND is_free(report->9)';

-- Grants the shares of a wave of reports. Their rows of limits are locked, in the order of names, so
-- two exchanges never grant more than a limit together.
CREATE FUNCTION share_limits(me text, at bigint, reports jsonb, is_taken boolean)
RETURNS jsonb LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  granted_shares jsonb;
  unused jsonb;
BEGIN
  INSERT INTO limits (tenant_id, name)
  SELECT e->>1, e->>2 FROM jsonb_array_elements(reports) e
  WHERE NOT EXISTS (SELECT FROM limits l WHERE l.tenant_id = e->>1 AND l.name = e->>2)
  ORDER BY 1, 2 ON CONFLICT DO NOTHING;
  PERFORM FROM limits l WHERE (l.tenant_id, l.name) IN
    (SELECT e->>1, e->>2 FROM jsonb_array_elements(reports) e)
  ORDER BY l.tenant_id, l.name FOR UPDATE;
  -- One by one: there are few, and the planner may choose to compare all of them with all shares.
  FOR unused IN SELECT e FROM jsonb_array_elements(reports) e WHERE is_unused(e) LOOP
    DELETE FROM shares s
    WHERE s.tenant_id = unused->>1 AND s.name = unused->>2 AND s.node_id = me;
  END LOOP;
  WITH reported AS MATERIALIZED (
    SELECT (e->>0)::int AS item, e->>1 AS tenant_id, e->>2 AS name, (e->>3)::int AS version,
      (e->>4)::float8 AS calls, (e->>5)::float8 AS failures, (e->>6)::float8 AS slow_calls,
      (e->>7)::float8 AS demand, nullif(e->8, 'null') AS slots, nullif(e->9, 'null') AS retry_slots,
      nullif(e->10, 'null') AS rate, nullif(e->11, 'null') AS retry_rate, is_unused(e)
    FROM jsonb_array_elements(reports) e
  ), granted AS MATERIALIZED (
    SELECT r.*, l.next_token_at, l.next_retry_token_at,
      CASE WHEN is_taken OR r.slots IS NULL THEN 0 ELSE grant_slots(r.slots, o.taken) END AS own,
      CASE WHEN is_taken OR r.retry_slots IS NULL THEN 0
        ELSE grant_slots(r.retry_slots, o.retry_taken) END AS own_retries,
      CASE WHEN NOT is_taken THEN reserve_rate(r.rate, l.next_token_at, at) END AS tokens,
      CASE WHEN NOT is_taken THEN reserve_rate(r.retry_rate, l.next_retry_token_at, at) END
        AS retry_tokens,
      jsonb_build_array(o.calls, o.failures, o.slow_calls, o.demanding, o.demand) AS others
    FROM reported r JOIN limits l ON l.tenant_id = r.tenant_id AND l.name = r.name
    CROSS JOIN LATERAL (
      SELECT coalesce(sum(s.calls), 0) AS calls, coalesce(sum(s.failures), 0) AS failures,
        coalesce(sum(s.slow_calls), 0) AS slow_calls,
        count(*) FILTER (WHERE s.demand > 0) AS demanding, coalesce(sum(s.demand), 0) AS demand,
        coalesce(sum(greatest(s.slots, s.used)), 0)::bigint AS taken,
        coalesce(sum(greatest(s.retry_slots, s.retry_used)), 0)::bigint AS retry_taken
      FROM shares s JOIN nodes n ON n.node_id = s.node_id AND n.lease_until > at
      WHERE s.tenant_id = r.tenant_id AND s.name = r.name AND s.node_id <> me) o
  ), capped AS MATERIALIZED (
    SELECT g.*, CASE WHEN g.slots IS NULL THEN g.own_retries
      ELSE least(g.own, g.own_retries) END AS own_capped FROM granted g
  ), stored AS (
    INSERT INTO shares AS s
    SELECT tenant_id, name, me, own, coalesce((slots->>2)::int, 0), own_capped,
      coalesce((retry_slots->>2)::int, 0), calls, failures, slow_calls, demand
    FROM capped WHERE NOT is_unused
    ON CONFLICT (tenant_id, name, node_id) DO UPDATE SET slots = excluded.slots,
      used = excluded.used, retry_slots = excluded.retry_slots, retry_used = excluded.retry_used,
      calls = excluded.calls, failures = excluded.failures, slow_calls = excluded.slow_calls,
      demand = excluded.demand
  ), reserved AS (
    UPDATE limits l SET next_token_at = coalesce(c.tokens[3], l.next_token_at),
      next_retry_token_at = coalesce(c.retry_tokens[3], l.next_retry_token_at)
    FROM capped c WHERE l.tenant_id = c.tenant_id AND l.name = c.name
      AND (c.tokens[2] > 0 OR c.retry_tokens[2] > 0)
  )
  SELECT jsonb_agg(jsonb_build_array(c.item, c.own, c.own_capped, c.tokens[1], c.tokens[2],
    c.retry_tokens[1], c.retry_tokens[2], c.others,
    CASE WHEN d.version > 0 AND d.version <> c.version THEN destination_json(d.destination_id) END))
  INTO granted_shares
  FROM capped c LEFT JOIN destinations d ON d.tenant_id = c.tenant_id AND d.name = c.name;
  RETURN granted_shares;
END $$;

CREATE FUNCTION hints_for(wanted int[], max_count int) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  RETURN (SELECT coalesce(jsonb_agg(jsonb_build_array(h.hint_id::text, h.partition, h.tenant_id,
    h.destination, h.lane, h.due_at)), '[]')
  FROM (SELECT * FROM hints h WHERE h.partition = ANY (wanted) ORDER BY h.hint_id
    LIMIT max_count) h);
END $$;

-- Takes the lock of the list of nodes. An exchange of a known node that shares needs it only shared.
CREATE FUNCTION lock_nodes(me text, wants_all boolean, leaving boolean) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF NOT wants_all AND EXISTS (SELECT FROM nodes n WHERE n.node_id = me AND NOT n.takes_all
    AND n.is_leaving = leaving AND n.lease_until > clock_ms()) THEN
    PERFORM pg_advisory_xact_lock_shared(nodes_lock());
  ELSE
    PERFORM pg_advisory_xact_lock(nodes_lock());
  END IF;
END $$;

CREATE FUNCTION renew_node(report jsonb, max_hints int) RETURNS jsonb LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
SET lock_timeout = 3000
AS $$
DECLARE
  me text := report->>'nodeId';
  leaving boolean := (report->>'isLeaving')::boolean;
  wants_all boolean := (report->>'takesAll')::boolean;
  wanted int[] := ARRAY(SELECT e::int FROM jsonb_array_elements(report->'partitions') e);
  before nodes;
  at bigint;
  takes boolean;
  is_taken boolean;
  granted jsonb := '[]';
  one jsonb;
BEGIN
  PERFORM make_durable();
  PERFORM lock_nodes(me, wants_all, leaving);
  SELECT * INTO before FROM nodes n WHERE n.node_id = me;
  at := clock_ms();
  takes := wants_all AND (coalesce(before.takes_all AND before.lease_until > at, false)
    OR NOT EXISTS (SELECT FROM nodes n WHERE n.node_id <> me AND n.lease_until > at));
  INSERT INTO nodes AS n VALUES (me, at + (report->>'leaseMs')::bigint, takes, leaving)
  ON CONFLICT (node_id) DO UPDATE SET lease_until = excluded.lease_until,
    takes_all = excluded.takes_all, is_leaving = excluded.is_leaving;
  IF jsonb_array_length(report->'handledHints') > 0 THEN
    DELETE FROM hints h WHERE h.hint_id = ANY (
      ARRAY(SELECT e::bigint FROM jsonb_array_elements_text(report->'handledHints') e));
  END IF;
  is_taken := EXISTS (SELECT FROM nodes n
    WHERE n.node_id <> me AND n.takes_all AND n.lease_until > at);
  FOR one IN SELECT * FROM jsonb_array_elements(report->'waves') LOOP
    granted := granted || coalesce(share_limits(me, at, one, is_taken), '[]');
  END LOOP;
  RETURN jsonb_build_object('now', at, 'wasLapsed', coalesce(before.lease_until, 0) <= at,
    'takesAll', takes, 'isChanged', before.is_leaving IS DISTINCT FROM leaving
      OR before.takes_all IS DISTINCT FROM takes,
    'nodes', (SELECT coalesce(jsonb_agg(n.node_id ORDER BY n.node_id), '[]') FROM nodes n
      WHERE NOT n.is_leaving AND (n.node_id = me OR n.lease_until > at)),
    'hints', hints_for(wanted, max_hints), 'shares', granted);
END $$;

CREATE FUNCTION retire_node(me text) RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT SET lock_timeout = 3000
AS $$
BEGIN
  PERFORM make_durable();
  PERFORM pg_advisory_xact_lock(nodes_lock());
  DELETE FROM nodes WHERE node_id = me;
  DELETE FROM shares WHERE node_id = me;
END $$;


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
  EXECUTE format('INSERT INTO kept_attempts SELECT a.* FROM %I a
    WHERE a.ref > $1 AND a.ref <= $2 AND EXISTS (SELECT FROM tasks t WHERE t.ref = a.ref)', name)
    USING oldest.examined_ref, last_ref;
  UPDATE attempt_days SET examined_ref = last_ref WHERE day = oldest.day;
  RETURN false;
END $$;

-- Removes these tasks; their keys stay. The counts have a slot that belongs to no node.
CREATE FUNCTION remove_tasks(refs bigint[]) RETURNS int LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  destination_ids int[];
  statuses int[];
BEGIN
  IF cardinality(refs) = 0 THEN RETURN 0; END IF;
  DELETE FROM payloads WHERE ref = ANY (refs);
  DELETE FROM task_labels WHERE ref = ANY (refs);
  DELETE FROM kept_attempts WHERE ref = ANY (refs);
  WITH gone AS (DELETE FROM tasks WHERE ref = ANY (refs) RETURNING destination_id, status)
  SELECT array_agg(destination_id), array_agg(status::int) INTO destination_ids, statuses FROM gone;
  IF statuses IS NULL THEN RETURN 0; END IF;
  PERFORM add_counts('', destination_ids, statuses,
    array_fill(-1, ARRAY[cardinality(statuses)]));
  RETURN cardinality(statuses);
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
  removed := remove_tasks(ARRAY(SELECT t.ref FROM tasks t WHERE t.status IN (2, 4)
    AND t.finished_at < ended_before ORDER BY t.finished_at LIMIT max_count
    FOR UPDATE SKIP LOCKED));
  removed := removed + remove_tasks(ARRAY(SELECT t.ref FROM tasks t WHERE t.status = 3
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
  RETURN remove_tasks(ARRAY(SELECT t.ref FROM tasks t WHERE t.tenant_id = tenant
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

-- Removes a destination that no node has written and that has no tasks. The caller has the lock.
CREATE FUNCTION remove_destination(tenant text, id int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
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

-- Removes a node without a lease and without claims, and what it had of the limits.
CREATE FUNCTION remove_unused_nodes() RETURNS int LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET lock_timeout = 1000
AS $$
DECLARE
  unused text[];
BEGIN
  PERFORM pg_advisory_xact_lock(nodes_lock());
  unused := ARRAY(SELECT n.node_id FROM nodes n WHERE n.lease_until <= clock_ms()
    AND NOT EXISTS (SELECT FROM open_tasks o WHERE o.status = 1 AND o.claimed_by = n.node_id));
  DELETE FROM nodes WHERE node_id = ANY (unused);
  DELETE FROM shares WHERE node_id = ANY (unused);
  RETURN cardinality(unused);
END $$;

-- Does a task that has not ended use it?
CREATE FUNCTION is_policy_used(tenant text, policy text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN EXISTS (SELECT FROM tasks t
    WHERE t.tenant_id = tenant AND t.policy_id = policy AND t.status = 0);
END $$;

CREATE FUNCTION remove_policy(tenant text, policy text, at bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET lock_timeout = 3000
AS $$
BEGIN
  PERFORM make_durable();
  -- The search may take a while, so it is made before the lock, too.
  IF is_policy_used(tenant, policy) THEN RETURN false; END IF;
  PERFORM pg_advisory_xact_lock(creates_lock());
  IF is_policy_used(tenant, policy) THEN RETURN false; END IF;
  UPDATE policies SET removed_at = at
  WHERE tenant_id = tenant AND policy_id = policy AND removed_at IS NULL;
  RETURN FOUND;
END $$;

CREATE FUNCTION remove_inline(tenants text[], ids text[]) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off SET lock_timeout = 3000
AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(creates_lock());
  DELETE FROM policies p USING unnest(tenants, ids) u (tenant_id, policy_id)
  WHERE p.tenant_id = u.tenant_id AND p.policy_id = u.policy_id
    AND NOT EXISTS (SELECT FROM tasks t WHERE t.tenant_id = p.tenant_id
      AND t.policy_id = p.policy_id AND t.policy_version > 0);
END $$;


-- Shared by open transactions that use the policy or destination; exclusive for its removal. The same
-- expression is in write/outbox.ts.
CREATE FUNCTION item_lock(kind text, tenant text, name text) RETURNS bigint LANGUAGE sql STABLE AS
  $$ SELECT hashtextextended(concat_ws(E'\n', current_schema(), kind, tenant, name), 4) $$;

-- Is it an open transaction of this database? The number of an ended one means that the caller has not
-- begun a transaction; an unknown number is one of another server.
CREATE FUNCTION is_open_transaction(database text, xid text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RETURN database = current_database()
    AND coalesce(pg_xact_status(xid::xid8) = 'in progress', false);
EXCEPTION WHEN invalid_parameter_value THEN
  RETURN false;
END $$;

-- Called by the store's connection while the caller's transaction has the locks of both items. Returns
-- the id of the destination and whether the policy exists; null: the transaction is not open.
CREATE FUNCTION prepare_enqueue(database text, xid text, tenant text, destination text, policy text,
  version int)
RETURNS jsonb LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_seqscan = off SET lock_timeout = 3000
AS $$
DECLARE
  known places;
BEGIN
  IF NOT is_open_transaction(database, xid) THEN RETURN NULL; END IF;
  known := find_places(jsonb_build_array(jsonb_build_array(tenant, destination)));
  RETURN jsonb_build_array(known.ids[1], version = 0 OR has_policy(tenant, policy, version));
END $$;

-- Called in the caller's transaction. A failure is returned and changes nothing, so that the caller
-- decides what becomes of the transaction. "batch" has one create and its hint.
CREATE FUNCTION enqueue_task(xid text, destination_id int, at bigint, batch jsonb, bytes bytea,
  notice text)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
  slot text := 'outbox.' || xid;
  one new_task;
BEGIN
  IF pg_current_xact_id()::text <> xid THEN RETURN '["ended"]'; END IF;
  PERFORM make_durable();
  one := (read_new_tasks(batch->'creates'))[1];
  IF one.fingerprint IS NOT NULL THEN
    INSERT INTO idempotency_keys
    VALUES (one.tenant_id, one.idempotency_key, one.task_id, one.fingerprint)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN RETURN known_task(one)::text; END IF;
  END IF;
  PERFORM FROM insert_tasks(at, slot, ARRAY[one], ROW(ARRAY[destination_id], ARRAY[0])::places,
    '{}', bytes);
  PERFORM write_hints(slot, batch->'hints');
  PERFORM pg_notify(current_schema() || '_hints', notice);
  RETURN '["created"]';
EXCEPTION WHEN OTHERS THEN
  RETURN jsonb_build_array('failed', SQLSTATE, SQLERRM)::text;
END $$;

-- It runs with the rights of its owner: a caller needs no right to the tables, only to this function.
REVOKE EXECUTE ON FUNCTION enqueue_task FROM PUBLIC;

CREATE OR REPLACE FUNCTION remove_destination(tenant text, id int) RETURNS int
LANGUAGE plpgsql AS $$
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

CREATE OR REPLACE FUNCTION remove_policy(tenant text, policy text, at bigint) RETURNS boolean
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
CREATE OR REPLACE FUNCTION remove_inline(tenants text[], ids text[]) RETURNS void
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

CREATE TABLE schema_version (version int NOT NULL);
INSERT INTO schema_version VALUES (2);
SELECT add_attempt_day(20833);

INSERT INTO destinations (destination_id, tenant_id, name, version, document, paused_at, gate_until, breaker_state, open_until, open_count) OVERRIDING SYSTEM VALUE VALUES
  ('1', 'acme', 'https://paused.example', '1', '{"a":1}', '1800000000000', '5', 'OPEN', '1800000000009', '2'),
  ('2', 'acme', 'https://example.com', '0', NULL, NULL, '0', 'CLOSED', '0', '0'),
  ('3', 'globex', 'https://other.example', '0', NULL, NULL, '0', 'CLOSED', '0', '0');

INSERT INTO tasks (ref, created_at, finished_at, next_attempt_at, last_delay_ms, cancel_requested_at, destination_id, policy_version, attempt_number, claim_epoch, abandoned_count, last_status, status, lane, tenant_id, task_id, policy_id, idempotency_key, reason, last_error, redriven_to) VALUES
  ('1', '1800000000000', NULL, NULL, NULL, NULL, '2', '0', NULL, NULL, NULL, NULL, '0', NULL, 'acme', '01a3185c-5000-7000-8000-000000000001', 'background', 'waits', NULL, NULL, NULL),
  ('10', '1799999999995', '1800000000000', '1800000000000', '0', NULL, '2', '0', '0', '0', '0', NULL, '4', '0', 'acme', '01a3185c-4ffb-7000-8009-000000000010', 'background', NULL, 'aborted', NULL, NULL),
  ('11', '1800000000000', NULL, NULL, NULL, NULL, '2', '0', NULL, NULL, NULL, NULL, '0', NULL, 'acme', '01a3185c-5000-7000-800a-000000000011', 'background', 'dead', NULL, NULL, NULL),
  ('2', '1800000000000', NULL, NULL, NULL, NULL, '3', '0', NULL, NULL, NULL, NULL, '0', NULL, 'globex', '01a3185c-5000-7000-8001-000000000002', 'mine2', NULL, NULL, NULL, NULL),
  ('3', '1800000000000', NULL, NULL, NULL, NULL, '2', '1', NULL, NULL, NULL, NULL, '0', NULL, 'acme', '01a3185c-5000-7000-8002-000000000003', 'mine', NULL, NULL, NULL, NULL),
  ('4', '1799913600000', '1800000000000', '1800000000000', '500', NULL, '2', '0', '1', '2', '0', '200', '2', '1', 'acme', '01a31335-f400-7000-8003-000000000004', 'background', 'succeeded', 'succeeded', NULL, NULL),
  ('5', '1799913600000', '1800000002000', '1800000000500', '500', NULL, '2', '0', '3', '6', '0', '503', '2', '1', 'acme', '01a31335-f400-7000-8004-000000000005', 'background', 'retried', 'succeeded', 'answered 503', NULL),
  ('6', '1799913600000', '1800000001000', '1800000000500', '500', NULL, '2', '0', '2', '4', '0', '503', '3', '1', 'acme', '01a31335-f400-7000-8005-000000000006', 'background', 'dead', 'attempts', 'answered 503', '01a3185c-5000-7000-800a-000000000011'),
  ('7', '1799913600000', NULL, NULL, NULL, NULL, '2', '0', NULL, NULL, NULL, NULL, '0', NULL, 'acme', '01a31335-f400-7000-8006-000000000007', 'background', 'waiting-again', NULL, NULL, NULL),
  ('8', '1799913600000', NULL, NULL, NULL, NULL, '2', '0', NULL, NULL, NULL, NULL, '0', NULL, 'acme', '01a31335-f400-7000-8007-000000000008', 'background', 'claimed', NULL, NULL, NULL),
  ('9', '1799913600000', NULL, NULL, NULL, NULL, '2', '0', NULL, NULL, NULL, NULL, '0', NULL, 'acme', '01a31335-f400-7000-8008-000000000009', 'background', 'requested', NULL, NULL, NULL);

INSERT INTO open_tasks (ref, next_attempt_at, claimed_at, last_delay_ms, cancel_requested_at, destination_id, attempt_number, claim_epoch, abandoned_count, last_status, partition, lane, status, claimed_by, last_error) VALUES
  ('1', '1800000000000', NULL, '500', NULL, '2', '0', '12', '0', NULL, '0', '0', '0', NULL, NULL),
  ('11', '1800000000000', NULL, '0', NULL, '2', '0', '0', '0', NULL, '10', '0', '0', NULL, NULL),
  ('2', '1800000000000', NULL, '0', NULL, '3', '0', '0', '0', NULL, '1', '0', '0', NULL, NULL),
  ('3', '1800000005000', NULL, '0', NULL, '2', '0', '0', '0', NULL, '2', '0', '0', NULL, NULL),
  ('7', '1800000000000', NULL, '500', NULL, '2', '1', '4', '0', '503', '6', '1', '0', NULL, 'answered 503'),
  ('8', '1800000000500', '1800000001000', '500', NULL, '2', '2', '3', '0', '503', '7', '1', '1', 'node-1', 'answered 503'),
  ('9', '1800000000000', '1800000000000', '0', '1800000000000', '2', '1', '1', '0', NULL, '8', '0', '1', 'node-1', NULL);

INSERT INTO payloads (ref, payload, body) VALUES
  ('1', E'{"taskId":"01a3185c-5000-7000-8000-000000000001","tenantId":"acme","idempotencyKey":"waits","destination":"https://example.com","targetUrl":"https://example.com/hook?a=\\"1\\"","method":"POST","headers":{"content-type":"application/json","x-odd":"a\\u0001b\\\\c"},"bodyRef":null,"policyId":"background","policyVersion":0,"idempotent":true,"deadlineAt":1800009000000,"createdAt":1800000000000,"scheduledAt":1800000000000,"labels":{"team":"a","o''dd":"l\\"abel"},"callbackUrl":"https://cb.example/","redrivenFrom":null}', E'\\x0001ff5c7841'),
  ('10', E'{"taskId":"01a3185c-4ffb-7000-8009-000000000010","tenantId":"acme","idempotencyKey":null,"destination":"https://example.com","targetUrl":"https://example.com/hook?a=\\"1\\"","method":"POST","headers":{"content-type":"application/json","x-odd":"a\\u0001b\\\\c"},"bodyRef":null,"policyId":"background","policyVersion":0,"idempotent":true,"deadlineAt":null,"createdAt":1799999999995,"scheduledAt":1800000000000,"labels":{"team":"a"},"callbackUrl":null,"redrivenFrom":null}', E'\\x0001ff5c7841'),
  ('11', E'{"taskId":"01a3185c-5000-7000-800a-000000000011","tenantId":"acme","idempotencyKey":"dead","destination":"https://example.com","targetUrl":"https://example.com/hook?a=\\"1\\"","method":"POST","headers":{"content-type":"application/json","x-odd":"a\\u0001b\\\\c"},"bodyRef":null,"policyId":"background","policyVersion":0,"idempotent":true,"deadlineAt":null,"createdAt":1800000000000,"scheduledAt":1800000000000,"labels":{},"callbackUrl":null,"redrivenFrom":"01a31335-f400-7000-8005-000000000006"}', E'\\x0001ff5c7841'),
  ('2', E'{"taskId":"01a3185c-5000-7000-8001-000000000002","tenantId":"globex","idempotencyKey":null,"destination":"https://other.example","targetUrl":"https://example.com/hook?a=\\"1\\"","method":"POST","headers":{"content-type":"application/json","x-odd":"a\\u0001b\\\\c"},"bodyRef":null,"policyId":"mine2","policyVersion":0,"idempotent":true,"deadlineAt":null,"createdAt":1800000000000,"scheduledAt":1800000000000,"labels":{},"callbackUrl":null,"redrivenFrom":null}', NULL),
  ('3', E'{"taskId":"01a3185c-5000-7000-8002-000000000003","tenantId":"acme","idempotencyKey":null,"destination":"https://example.com","targetUrl":"https://example.com/hook?a=\\"1\\"","method":"POST","headers":{"content-type":"application/json","x-odd":"a\\u0001b\\\\c"},"bodyRef":null,"policyId":"mine","policyVersion":1,"idempotent":true,"deadlineAt":null,"createdAt":1800000000000,"scheduledAt":1800000005000,"labels":{},"callbackUrl":null,"redrivenFrom":null}', E'\\x0001ff5c7841'),
  ('4', E'{"taskId":"01a31335-f400-7000-8003-000000000004","tenantId":"acme","idempotencyKey":"succeeded","destination":"https://example.com","targetUrl":"https://example.com/hook?a=\\"1\\"","method":"POST","headers":{"content-type":"application/json","x-odd":"a\\u0001b\\\\c"},"bodyRef":null,"policyId":"background","policyVersion":0,"idempotent":true,"deadlineAt":null,"createdAt":1799913600000,"scheduledAt":1800000000000,"labels":{"run":"succeeded"},"callbackUrl":null,"redrivenFrom":null}', E'\\x0001ff5c7841'),
  ('5', E'{"taskId":"01a31335-f400-7000-8004-000000000005","tenantId":"acme","idempotencyKey":"retried","destination":"https://example.com","targetUrl":"https://example.com/hook?a=\\"1\\"","method":"POST","headers":{"content-type":"application/json","x-odd":"a\\u0001b\\\\c"},"bodyRef":null,"policyId":"background","policyVersion":0,"idempotent":true,"deadlineAt":null,"createdAt":1799913600000,"scheduledAt":1800000000000,"labels":{"run":"retried"},"callbackUrl":null,"redrivenFrom":null}', E'\\x0001ff5c7841'),
  ('6', E'{"taskId":"01a31335-f400-7000-8005-000000000006","tenantId":"acme","idempotencyKey":"dead","destination":"https://example.com","targetUrl":"https://example.com/hook?a=\\"1\\"","method":"POST","headers":{"content-type":"application/json","x-odd":"a\\u0001b\\\\c"},"bodyRef":null,"policyId":"background","policyVersion":0,"idempotent":true,"deadlineAt":null,"createdAt":1799913600000,"scheduledAt":1800000000000,"labels":{"run":"dead"},"callbackUrl":null,"redrivenFrom":null}', E'\\x0001ff5c7841'),
  ('7', E'{"taskId":"01a31335-f400-7000-8006-000000000007","tenantId":"acme","idempotencyKey":"waiting-again","destination":"https://example.com","targetUrl":"https://example.com/hook?a=\\"1\\"","method":"POST","headers":{"content-type":"application/json","x-odd":"a\\u0001b\\\\c"},"bodyRef":null,"policyId":"background","policyVersion":0,"idempotent":true,"deadlineAt":null,"createdAt":1799913600000,"scheduledAt":1800000000000,"labels":{"run":"waiting-again"},"callbackUrl":null,"redrivenFrom":null}', E'\\x0001ff5c7841'),
  ('8', E'{"taskId":"01a31335-f400-7000-8007-000000000008","tenantId":"acme","idempotencyKey":"claimed","destination":"https://example.com","targetUrl":"https://example.com/hook?a=\\"1\\"","method":"POST","headers":{"content-type":"application/json","x-odd":"a\\u0001b\\\\c"},"bodyRef":null,"policyId":"background","policyVersion":0,"idempotent":true,"deadlineAt":null,"createdAt":1799913600000,"scheduledAt":1800000000000,"labels":{"run":"claimed"},"callbackUrl":null,"redrivenFrom":null}', E'\\x0001ff5c7841'),
  ('9', E'{"taskId":"01a31335-f400-7000-8008-000000000009","tenantId":"acme","idempotencyKey":"requested","destination":"https://example.com","targetUrl":"https://example.com/hook?a=\\"1\\"","method":"POST","headers":{"content-type":"application/json","x-odd":"a\\u0001b\\\\c"},"bodyRef":null,"policyId":"background","policyVersion":0,"idempotent":true,"deadlineAt":null,"createdAt":1799913600000,"scheduledAt":1800000000000,"labels":{"run":"requested"},"callbackUrl":null,"redrivenFrom":null}', E'\\x0001ff5c7841');

INSERT INTO task_labels (tenant_id, name, value, task_id, ref) VALUES
  ('acme', 'o''dd', 'l"abel', '01a3185c-5000-7000-8000-000000000001', '1'),
  ('acme', 'run', 'claimed', '01a31335-f400-7000-8007-000000000008', '8'),
  ('acme', 'run', 'dead', '01a31335-f400-7000-8005-000000000006', '6'),
  ('acme', 'run', 'requested', '01a31335-f400-7000-8008-000000000009', '9'),
  ('acme', 'run', 'retried', '01a31335-f400-7000-8004-000000000005', '5'),
  ('acme', 'run', 'succeeded', '01a31335-f400-7000-8003-000000000004', '4'),
  ('acme', 'run', 'waiting-again', '01a31335-f400-7000-8006-000000000007', '7'),
  ('acme', 'team', 'a', '01a3185c-4ffb-7000-8009-000000000010', '10'),
  ('acme', 'team', 'a', '01a3185c-5000-7000-8000-000000000001', '1');

INSERT INTO idempotency_keys (tenant_id, idempotency_key, task_id, fingerprint, expires_at) VALUES
  ('acme', 'claimed', '01a31335-f400-7000-8007-000000000008', 'print-claimed', NULL),
  ('acme', 'dead', '01a31335-f400-7000-8005-000000000006', 'print-dead', '1800086401000'),
  ('acme', 'requested', '01a31335-f400-7000-8008-000000000009', 'print-requested', NULL),
  ('acme', 'retried', '01a31335-f400-7000-8004-000000000005', 'print-retried', '1800086402000'),
  ('acme', 'succeeded', '01a31335-f400-7000-8003-000000000004', 'print-succeeded', '1800086400000'),
  ('acme', 'waiting-again', '01a31335-f400-7000-8006-000000000007', 'print-waiting-again', NULL),
  ('acme', 'waits', '01a3185c-5000-7000-8000-000000000001', 'print-waits', NULL);

INSERT INTO attempts (ref, attempt_number, day, log, response_body) VALUES
  ('4', '1', '20833', '{"attemptNumber":1,"startedAt":1800000000001,"durationMs":12,"phases":{"dnsMs":1,"connectMs":2,"tlsMs":null,"firstByteMs":9},"outcome":"success","responseStatus":200,"errorClass":null,"errorMessage":null,"responseHeaders":{"retry-after":"1"},"nextDelayMs":null,"delaySource":null,"waits":[{"cause":"circuit-open","sinceAt":1799999999100,"durationMs":700}]}', E'\\x00ff0a'),
  ('5', '1', '20833', '{"attemptNumber":1,"startedAt":1800000000001,"durationMs":12,"phases":{"dnsMs":1,"connectMs":2,"tlsMs":null,"firstByteMs":9},"outcome":"status","responseStatus":503,"errorClass":null,"errorMessage":"answered 503","responseHeaders":{"retry-after":"1"},"nextDelayMs":500,"delaySource":"policy","waits":[{"cause":"circuit-open","sinceAt":1799999999100,"durationMs":700}]}', E'\\x00ff0a'),
  ('5', '2', '20833', '{"attemptNumber":2,"startedAt":1800000000002,"durationMs":12,"phases":{"dnsMs":1,"connectMs":2,"tlsMs":null,"firstByteMs":9},"outcome":"status","responseStatus":503,"errorClass":null,"errorMessage":"answered 503","responseHeaders":{"retry-after":"1"},"nextDelayMs":500,"delaySource":"policy","waits":[{"cause":"circuit-open","sinceAt":1799999999100,"durationMs":700}]}', E'\\x00ff0a'),
  ('5', '3', '20833', '{"attemptNumber":3,"startedAt":1800000000003,"durationMs":12,"phases":{"dnsMs":1,"connectMs":2,"tlsMs":null,"firstByteMs":9},"outcome":"status","responseStatus":503,"errorClass":null,"errorMessage":"answered 503","responseHeaders":{"retry-after":"1"},"nextDelayMs":500,"delaySource":"policy","waits":[{"cause":"circuit-open","sinceAt":1799999999100,"durationMs":700}]}', E'\\x00ff0a'),
  ('6', '2', '20833', '{"attemptNumber":2,"startedAt":1800000000002,"durationMs":12,"phases":{"dnsMs":1,"connectMs":2,"tlsMs":null,"firstByteMs":9},"outcome":"status","responseStatus":503,"errorClass":null,"errorMessage":"answered 503","responseHeaders":{"retry-after":"1"},"nextDelayMs":500,"delaySource":"policy","waits":[{"cause":"circuit-open","sinceAt":1799999999100,"durationMs":700}]}', E'\\x00ff0a'),
  ('7', '1', '20833', '{"attemptNumber":1,"startedAt":1800000000001,"durationMs":12,"phases":{"dnsMs":1,"connectMs":2,"tlsMs":null,"firstByteMs":9},"outcome":"status","responseStatus":503,"errorClass":null,"errorMessage":"answered 503","responseHeaders":{"retry-after":"1"},"nextDelayMs":500,"delaySource":"policy","waits":[{"cause":"circuit-open","sinceAt":1799999999100,"durationMs":700}]}', E'\\x00ff0a'),
  ('8', '1', '20833', '{"attemptNumber":1,"startedAt":1800000000001,"durationMs":12,"phases":{"dnsMs":1,"connectMs":2,"tlsMs":null,"firstByteMs":9},"outcome":"status","responseStatus":503,"errorClass":null,"errorMessage":"answered 503","responseHeaders":{"retry-after":"1"},"nextDelayMs":500,"delaySource":"policy","waits":[{"cause":"circuit-open","sinceAt":1799999999100,"durationMs":700}]}', E'\\x00ff0a');

INSERT INTO kept_attempts (ref, attempt_number, day, log, response_body) VALUES
  ('6', '1', '-5', '{"attemptNumber":1,"startedAt":1800000000001,"durationMs":12,"phases":{"dnsMs":1,"connectMs":2,"tlsMs":null,"firstByteMs":9},"outcome":"status","responseStatus":503,"errorClass":null,"errorMessage":"answered 503","responseHeaders":{"retry-after":"1"},"nextDelayMs":500,"delaySource":"policy","waits":[{"cause":"circuit-open","sinceAt":1799999999100,"durationMs":700}]}', E'\\x00ff0a');

INSERT INTO counts (tenant_id, destination_id, status, node_id, count) VALUES
  ('acme', '2', '0', 'node-1', '4'),
  ('acme', '2', '1', 'node-1', '2'),
  ('acme', '2', '2', 'node-1', '2'),
  ('acme', '2', '3', 'node-1', '1'),
  ('acme', '2', '4', 'node-1', '1'),
  ('globex', '3', '0', 'node-1', '1');

INSERT INTO policies (tenant_id, policy_id, version, document, created_at, removed_at) VALUES
  ('acme', 'mine', '1', '{}', '1800000000000', NULL);

INSERT INTO documents (kind, tenant_id, id, version, text) VALUES
  ('guards', 'acme', 'https://example.com', '1', '{"b":2}');

INSERT INTO nodes (node_id, lease_until, takes_all, is_leaving) VALUES
  ('node-1', '1794938945832', 'false', 'false');

INSERT INTO hints (node_id, partition, tenant_id, destination, lane, due_at, hint_id) VALUES
  ('node-1', '3', 'acme', 'https://example.com', '0', '1800000000000', '1');

INSERT INTO limits (tenant_id, name, next_token_at, next_retry_token_at) VALUES
  ('acme', 'https://example.com', '0', '0');

INSERT INTO shares (tenant_id, name, node_id, slots, used, retry_slots, retry_used, calls, failures, slow_calls, demand) VALUES
  ('acme', 'https://example.com', 'node-1', '3', '1', '0', '0', '1', '1', '0', '1');

SELECT setval('task_refs', 11);
SELECT setval('hint_ids', 1);
SELECT setval(pg_get_serial_sequence('destinations', 'destination_id'), (SELECT max(destination_id) FROM destinations));
