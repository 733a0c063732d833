/**
 * Create functions: insert new tasks, with their keys and labels. All tasks of a batch are inserted by
 * one statement: a statement per task would take twice as long.
 */
import {
  CREATE_ARGUMENTS,
  createNumber as number,
  createTenant as tenant,
  createText as text,
} from "./batch-cells.ts";

export const CREATE_FUNCTIONS = `
-- The destinations of the tasks of a batch. A task has the place of its destination in them.
CREATE TYPE places AS (ids int[], versions int[]);

-- How many tasks entered a status of a destination; negative: left it.
CREATE TYPE steps AS (destination_ids int[], statuses int[], counts int[]);

CREATE FUNCTION find_places(names text[]) RETURNS places LANGUAGE plpgsql AS $$
DECLARE
  found places;
BEGIN
  SELECT array_agg(d.destination_id ORDER BY i), array_agg(d.version ORDER BY i) INTO found
  FROM generate_series(1, cardinality(names) / 2) i
  LEFT JOIN destinations d ON d.tenant_id = names[2 * i - 1] AND d.name = names[2 * i];
  IF array_position(found.ids, NULL) IS NULL THEN RETURN found; END IF;
  INSERT INTO destinations (tenant_id, name)
  SELECT names[2 * i - 1], names[2 * i] FROM generate_series(1, cardinality(names) / 2) i
  WHERE found.ids[i] IS NULL
  ORDER BY names[2 * i - 1] COLLATE "C", names[2 * i] COLLATE "C" ON CONFLICT DO NOTHING;
  RETURN find_places(names);
END $$;

-- A claim needs the version that its node knows. Version 0: no node has written the row.
CREATE FUNCTION may_claim(stored int, wanted bigint, is_refused boolean) RETURNS boolean
LANGUAGE sql IMMUTABLE AS 'SELECT stored = 0 OR (stored = wanted AND NOT is_refused)';

-- Inserts these items of a batch. Those that may be claimed at once are claimed by the node.
CREATE FUNCTION insert_tasks(at bigint, node text, items int[], known places, refused int[],
  ${CREATE_ARGUMENTS})
RETURNS steps LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  made steps;
BEGIN
  WITH fresh AS MATERIALIZED (
    SELECT nextval('task_refs') AS ref, i, known.ids[${number("place")}] AS destination_id,
      ${number("claimVersion")} IS NOT NULL AND may_claim(known.versions[${number("place")}],
        ${number("claimVersion")}, known.ids[${number("place")}] = ANY (refused)) AS is_claimed
    FROM unnest(items) i
  ), stored AS (
    INSERT INTO tasks (ref, created_at, destination_id, policy_version, tenant_id, task_id,
      policy_id, idempotency_key, payload, body)
    SELECT ref, ${number("createdAt")}, destination_id, ${number("policyVersion")}, ${tenant()},
      ${text("taskId")}, ${text("policyId")}, ${text("idempotencyKey")}, ${text("payload")},
      bodies[i] FROM fresh
  ), waiting AS (
    INSERT INTO waiting_tasks (ref, next_attempt_at, destination_id, attempt_number, claim_epoch,
      partition, tenant_id, task_id, idempotency_key, policy_id)
    SELECT ref, ${number("scheduledAt")}, destination_id, 0, 0, ${number("partition")}, ${tenant()},
      ${text("taskId")}, ${text("idempotencyKey")},
      CASE WHEN ${number("policyVersion")} > 0 THEN ${text("policyId")} END
    FROM fresh WHERE NOT is_claimed
  ), claimed AS (
    INSERT INTO claimed_tasks (ref, next_attempt_at, destination_id, attempt_number, claim_epoch,
      partition, tenant_id, task_id, idempotency_key, policy_id, claimed_at, claimed_by)
    SELECT ref, ${number("scheduledAt")}, destination_id, 1, 1, ${number("partition")}, ${tenant()},
      ${text("taskId")}, ${text("idempotencyKey")},
      CASE WHEN ${number("policyVersion")} > 0 THEN ${text("policyId")} END, at, node
    FROM fresh WHERE is_claimed
  ), labeled AS (
    INSERT INTO task_labels (tenant_id, name, value, task_id, ref)
    SELECT ${tenant()}, l->>0, l->>1, ${text("taskId")}, ref
    FROM fresh CROSS JOIN LATERAL jsonb_array_elements(${text("labels")}::jsonb) l
    WHERE ${text("labels")} IS NOT NULL
  )
  SELECT array_agg(s.destination_id), array_agg(s.is_claimed::int), array_agg(s.count) INTO made
  FROM (SELECT destination_id, is_claimed, count(*)::int FROM fresh GROUP BY 1, 2) s;
  RETURN made;
END $$;

CREATE FUNCTION has_policy(tenant text, policy text, wanted bigint) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (SELECT FROM policies p WHERE p.tenant_id = tenant
    AND p.policy_id = policy AND p.version = wanted AND p.removed_at IS NULL);
END $$;

-- Do all these policies exist? Tasks of one batch mostly have the same one.
CREATE FUNCTION have_policies(wanted jsonb) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN NOT EXISTS (SELECT FROM jsonb_array_elements(wanted) e
    WHERE NOT has_policy(e->>0, e->>1, (e->>2)::int));
END $$;

CREATE FUNCTION is_redriven(tenant text, source text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (SELECT FROM tasks t WHERE t.tenant_id = tenant AND t.task_id = source
    AND t.redriven_to IS NOT NULL);
END $$;

-- The items whose policy exists, and whose source and key are free and are taken now.
CREATE FUNCTION take_keys(items int[], have_all_policies boolean, ${CREATE_ARGUMENTS}) RETURNS int[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  free_items int[];
BEGIN
  WITH good AS MATERIALIZED (
    SELECT i FROM unnest(items) i
    WHERE (have_all_policies OR ${number("policyVersion")} = 0
        OR has_policy(${tenant()}, ${text("policyId")}, ${number("policyVersion")}))
      AND (${text("redrivenFrom")} IS NULL OR NOT is_redriven(${tenant()}, ${text("redrivenFrom")}))
  ), taken AS (
    INSERT INTO idempotency_keys
    SELECT ${tenant()}, ${text("idempotencyKey")}, ${text("taskId")}, ${text("fingerprint")}
    FROM good WHERE ${text("fingerprint")} IS NOT NULL
    ORDER BY ${tenant()} COLLATE "C", ${text("idempotencyKey")} COLLATE "C"
    ON CONFLICT DO NOTHING RETURNING tenant_id, task_id
  ), free AS MATERIALIZED (
    -- An array: a join of two lists without an index takes the square of their length.
    SELECT i FROM good WHERE ${text("fingerprint")} IS NULL
      OR ${tenant()} || E'\\n' || ${text("taskId")}
        = ANY (ARRAY(SELECT k.tenant_id || E'\\n' || k.task_id FROM taken k))
  ), marked AS (
    UPDATE tasks t SET redriven_to = ${text("taskId")} FROM free
    WHERE ${text("redrivenFrom")} IS NOT NULL AND t.tenant_id = ${tenant()}
      AND t.task_id = ${text("redrivenFrom")}
  )
  SELECT coalesce(array_agg(i), '{}') INTO free_items FROM free;
  RETURN free_items;
END $$;

-- Why an item was not created. The key may have been removed since: then the batch is repeated.
CREATE FUNCTION known_task(i int, ${CREATE_ARGUMENTS}) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  tenant text := ${tenant()};
  version bigint := ${number("policyVersion")};
  known record;
BEGIN
  SELECT k.task_id, k.fingerprint = ${text("fingerprint")} AS is_same INTO known
  FROM idempotency_keys k
  WHERE ${text("fingerprint")} IS NOT NULL AND k.tenant_id = tenant
    AND k.idempotency_key = ${text("idempotencyKey")};
  IF FOUND THEN
    RETURN jsonb_build_array(CASE WHEN known.is_same THEN 'replayed' ELSE 'conflict' END,
      known.task_id);
  END IF;
  SELECT t.redriven_to INTO known FROM tasks t
  WHERE t.tenant_id = tenant AND t.task_id = ${text("redrivenFrom")} AND t.redriven_to IS NOT NULL;
  IF FOUND THEN
    RETURN jsonb_build_array('redriven', known.redriven_to);
  END IF;
  IF version = 0 OR has_policy(tenant, ${text("policyId")}, version) THEN
    RAISE EXCEPTION 'the key was removed during the commit' USING ERRCODE = '40001';
  END IF;
  RETURN jsonb_build_array('unknown-policy');
END $$;
`;
