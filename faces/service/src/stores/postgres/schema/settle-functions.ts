/**
 * Settle functions: end claims, cancel tasks and make waiting tasks due. The rows of `open_tasks`
 * are locked in the order of their refs, so each function sees their latest state.
 */

/** How long a key is kept after its task has ended is a parameter: `kept_ms`. */
export const SETTLE_FUNCTIONS = `
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
`;
