/**
 * Create functions: insert new tasks, with their keys, labels and counts. All tasks of a batch are
 * inserted by one statement: a statement per task would take twice as long.
 */

/**
 * `wave`: tasks of one batch that use the same key or source are inserted one after the other.
 * `cause_status`: for a task that follows the end of another one, whose item is `item`.
 */
export const CREATE_FUNCTIONS = `
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
    SELECT g.* FROM good g WHERE g.fingerprint IS NULL OR g.tenant_id || E'\\n' || g.task_id
      = ANY (ARRAY(SELECT k.tenant_id || E'\\n' || k.task_id FROM taken k))
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
`;
