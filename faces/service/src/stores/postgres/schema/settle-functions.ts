/**
 * Settle functions: end claims, cancel tasks and make waiting tasks due. A settle deletes the row of
 * its claim, in the order of task ids, so it sees its latest state and no other commit settles it too.
 */
import { settleNumber as number, SETTLE_ARGUMENTS, settleText as text } from "./batch-cells.ts";

/** How long a key is kept after its task has ended is a parameter: `kept_ms`. */
export const SETTLE_FUNCTIONS = `
-- The final status of an item; its tasks that follow the end are inserted after it.
CREATE TYPE verdict AS (item int, status int);

-- Adds steps to the counts of a node.
CREATE FUNCTION add_counts(node text, made steps) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  INSERT INTO counts AS c
  SELECT d.tenant_id, d.destination_id, s.status, node, sum(s.count)
  FROM unnest(made.destination_ids, made.statuses, made.counts) s (destination_id, status, count)
  JOIN destinations d ON d.destination_id = s.destination_id
  GROUP BY 1, 2, 3 HAVING sum(s.count) <> 0 ORDER BY 1, 2, 3
  ON CONFLICT (tenant_id, destination_id, status, node_id)
  DO UPDATE SET count = c.count + excluded.count;
END $$;

CREATE FUNCTION add_steps(one steps, other steps) RETURNS steps LANGUAGE sql IMMUTABLE AS $$
  SELECT ROW((one).destination_ids || (other).destination_ids, (one).statuses || (other).statuses,
    (one).counts || (other).counts)::steps
$$;

-- Settles each task at most once; items of the same task have different waves. "found_items": those
-- whose claim existed. "verdicts": of all of them if wanted, otherwise of those with another status than
-- the wanted one.
CREATE FUNCTION settle_wave(at bigint, kept_ms bigint, node text, wants_all boolean, items int[],
  ${SETTLE_ARGUMENTS}, OUT found_items int[], OUT verdicts verdict[], OUT made steps)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  settled record;
BEGIN
  WITH gone AS (
    DELETE FROM claimed_tasks c USING unnest(items) i
    WHERE c.tenant_id = ${text("tenantId")} AND c.task_id = ${text("taskId")}
      AND c.claim_epoch = ${number("claimEpoch")}
      AND c.claimed_by = coalesce(${text("claimedBy")}, node)
    RETURNING c.*, i
  ), found AS MATERIALIZED (
    SELECT g.*, g.attempt_number - (${number("attemptNumber")} IS NULL)::int AS attempts,
      CASE WHEN ${number("attemptNumber")} IS NULL THEN g.last_status
        ELSE ${number("lastStatus")} END AS new_status,
      CASE WHEN ${number("keepsError")} = 1 THEN g.last_error ELSE ${text("lastError")} END
        AS new_error,
      CASE WHEN g.cancel_requested_at IS NOT NULL AND ${number("status")} <> 2 THEN 4
        ELSE ${number("status")} END AS final
    FROM gone g
  ), waiting AS (
    INSERT INTO waiting_tasks (ref, next_attempt_at, last_delay_ms, destination_id, attempt_number,
      claim_epoch, abandoned_count, last_status, partition, lane, tenant_id, task_id,
      idempotency_key, policy_id, last_error)
    SELECT ref, ${number("nextAttemptAt")}, ${number("lastDelayMs")}, destination_id, attempts,
      claim_epoch + 1, ${number("abandonedCount")}, new_status, partition, ${number("lane")},
      tenant_id, task_id, idempotency_key, policy_id, new_error
    FROM found WHERE final = 0
  ), logged AS (
    INSERT INTO attempts (ref, attempt_number, day, log, response_body, tenant_id, task_id)
    SELECT ref, ${number("attemptNumber")}, at / 86400000, ${text("log")}, bodies[i], tenant_id,
      task_id
    FROM found WHERE final = 0 AND ${number("attemptNumber")} IS NOT NULL
  ), ended AS (
    INSERT INTO ended_tasks (ref, finished_at, next_attempt_at, last_delay_ms, cancel_requested_at,
      destination_id, attempt_number, claim_epoch, abandoned_count, last_status, status, lane,
      tenant_id, task_id, reason, last_error, log, response_body)
    SELECT ref, at, next_attempt_at, ${number("lastDelayMs")}, cancel_requested_at, destination_id,
      attempts, claim_epoch + 1, ${number("abandonedCount")}, new_status, final,
      ${number("lane")}, tenant_id, task_id,
      CASE WHEN final = ${number("status")} THEN ${text("reason")} ELSE 'aborted' END, new_error,
      ${text("log")}, bodies[i]
    FROM found WHERE final <> 0
  ), expiring AS (
    UPDATE idempotency_keys k SET expires_at = at + kept_ms FROM found f
    WHERE f.idempotency_key IS NOT NULL AND f.final <> 0 AND k.tenant_id = f.tenant_id
      AND k.idempotency_key = f.idempotency_key AND k.task_id = f.task_id
  )
  SELECT array_agg(i) AS items,
    array_agg(ROW(i, final)::verdict) FILTER (WHERE wants_all OR final <> ${number("status")})
      AS verdicts,
    (SELECT ROW(array_agg(s.destination_id), array_agg(s.status), array_agg(s.step))::steps FROM (
      SELECT destination_id, 1 AS status, -count(*)::int AS step FROM found GROUP BY 1
      UNION ALL
      SELECT destination_id, final::int, count(*)::int FROM found GROUP BY 1, 2) s) AS made
  INTO settled FROM found;
  found_items := settled.items;
  verdicts := settled.verdicts;
  made := settled.made;
END $$;

CREATE FUNCTION settle_tasks(at bigint, kept_ms bigint, node text, wants_all boolean, count int,
  ${SETTLE_ARGUMENTS}, OUT found_items int[], OUT verdicts verdict[], OUT made steps)
LANGUAGE plpgsql AS $$
DECLARE
  last_wave bigint := (SELECT max(${number("wave")}) FROM generate_series(1, count) i);
  one record;
BEGIN
  FOR current_wave IN 0..last_wave LOOP
    one := settle_wave(at, kept_ms, node, wants_all, ARRAY(SELECT i FROM generate_series(1, count) i
      WHERE ${number("wave")} = current_wave ORDER BY i), numbers, texts, bodies);
    found_items := found_items || one.found_items;
    verdicts := verdicts || one.verdicts;
    made := add_steps(made, one.made);
  END LOOP;
END $$;

-- Rows for the settles that have another result than the wanted one. -1: the claim did not exist.
CREATE FUNCTION unusual_settles(count int, found_items int[], verdicts verdict[])
RETURNS SETOF commit_row LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY SELECT 'settles', v.item, v.status::text, NULL::bytea FROM unnest(verdicts) v;
  IF coalesce(cardinality(found_items), 0) < count THEN
    RETURN QUERY SELECT 'settles', i, '-1', NULL::bytea FROM generate_series(1, count) i
      WHERE i <> ALL (coalesce(found_items, '{}'));
  END IF;
END $$;

-- Ends a waiting task as canceled.
CREATE FUNCTION cancel_waiting(at bigint, kept_ms bigint, tenant text, task text) RETURNS steps
LANGUAGE plpgsql AS $$
DECLARE
  w waiting_tasks;
BEGIN
  DELETE FROM waiting_tasks WHERE tenant_id = tenant AND task_id = task RETURNING * INTO w;
  IF NOT FOUND THEN RETURN NULL; END IF;
  INSERT INTO ended_tasks (ref, finished_at, next_attempt_at, last_delay_ms, destination_id,
    attempt_number, claim_epoch, abandoned_count, last_status, status, lane, tenant_id, task_id,
    reason, last_error)
  VALUES (w.ref, at, w.next_attempt_at, w.last_delay_ms, w.destination_id, w.attempt_number,
    w.claim_epoch, w.abandoned_count, w.last_status, 4, w.lane, tenant, task, 'aborted',
    w.last_error);
  UPDATE idempotency_keys k SET expires_at = at + kept_ms WHERE k.tenant_id = tenant
    AND k.idempotency_key = w.idempotency_key AND k.task_id = task;
  RETURN ROW(ARRAY[w.destination_id, w.destination_id], ARRAY[0, 4], ARRAY[-1, 1])::steps;
END $$;

-- The result of a cancel: its kind, and a status or an instant. A task that another commit moves from
-- table to table may not be found in any: then the commit is repeated.
CREATE FUNCTION cancel_task(at bigint, kept_ms bigint, tenant text, task text,
  OUT result jsonb, OUT made steps)
LANGUAGE plpgsql AS $$
DECLARE
  task_state record;
BEGIN
  made := cancel_waiting(at, kept_ms, tenant, task);
  IF made IS NOT NULL THEN
    result := '["cancelled", 4]';
    RETURN;
  END IF;
  UPDATE claimed_tasks SET cancel_requested_at = coalesce(cancel_requested_at, at)
  WHERE tenant_id = tenant AND task_id = task RETURNING cancel_requested_at INTO task_state;
  IF FOUND THEN
    result := jsonb_build_array('requested', task_state.cancel_requested_at);
    RETURN;
  END IF;
  SELECT e.status INTO task_state FROM tasks t LEFT JOIN ended_tasks e ON e.ref = t.ref
  WHERE t.tenant_id = tenant AND t.task_id = task;
  IF FOUND AND task_state.status IS NULL THEN
    RAISE EXCEPTION 'the task was claimed or settled during the commit' USING ERRCODE = '40001';
  END IF;
  result := CASE WHEN NOT FOUND THEN '["unknown"]' WHEN task_state.status = 4 THEN '["cancelled"]'
    ELSE jsonb_build_array('ended', task_state.status) END;
END $$;

CREATE FUNCTION retry_now(at bigint, tenant text, task text) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  task_state record;
BEGIN
  UPDATE waiting_tasks w SET next_attempt_at = at
  WHERE w.tenant_id = tenant AND w.task_id = task AND w.next_attempt_at > at;
  SELECT d.name, w.lane INTO task_state FROM waiting_tasks w
  JOIN destinations d ON d.destination_id = w.destination_id
  WHERE w.tenant_id = tenant AND w.task_id = task;
  IF FOUND THEN RETURN jsonb_build_array('rescheduled', task_state.name, task_state.lane); END IF;
  SELECT coalesce(e.status, 1) AS status INTO task_state FROM tasks t
  LEFT JOIN ended_tasks e ON e.ref = t.ref WHERE t.tenant_id = tenant AND t.task_id = task;
  RETURN CASE WHEN NOT FOUND THEN '["unknown"]'
    ELSE jsonb_build_array('not-pending', task_state.status) END;
END $$;
`;
