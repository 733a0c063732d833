/**
 * Outbox functions: store a task inside a transaction of a caller, which may stay open for long. So
 * they leave no lock behind that a commit of a node waits for, except the one on the task's own key:
 *
 * - The destination is inserted by a connection of the store, not by the caller's transaction.
 * - Counts have a slot of the transaction, which the next removal of unused rows merges.
 * - Advisory locks keep the policy and the destination. A removal skips what is locked.
 *
 * Policy and destination are read by the store's connection: in the isolation level REPEATABLE READ, the
 * caller's transaction cannot see rows that are younger than its first statement.
 */
import { createTenant as tenant, createText as text } from "./batch-cells.ts";

export const OUTBOX_FUNCTIONS = `
-- Shared by open transactions that use the policy or destination; exclusive for its removal. The same
-- expression is in write/outbox.ts.
CREATE FUNCTION item_lock(kind text, tenant text, name text) RETURNS bigint LANGUAGE sql STABLE AS
  $$ SELECT hashtextextended(concat_ws(E'\\n', current_schema(), kind, tenant, name), 4) $$;

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
  known := find_places(ARRAY[tenant, destination]);
  RETURN jsonb_build_array(known.ids[1], version = 0 OR has_policy(tenant, policy, version));
END $$;

-- Called in the caller's transaction. A failure is returned and changes nothing, so that the caller
-- decides what becomes of the transaction. "batch" has one create, and
-- the channel of its partition if it is due soon.
CREATE FUNCTION store_enqueued(xid text, destination_id int, at bigint, batch jsonb, bytes bytea,
  notice text)
RETURNS text LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
AS $$
DECLARE
  slot text := 'outbox.' || xid;
  i int := 1;
  names text[];
  numbers bigint[];
  texts text[];
  bodies bytea[];
BEGIN
  IF pg_current_xact_id()::text <> xid THEN RETURN '["ended"]'; END IF;
  PERFORM make_durable();
  -- Here and not where they are declared, so that their failures are returned as well.
  names := ARRAY(SELECT e #>> '{}' FROM jsonb_array_elements(batch->'names') e);
  numbers := ARRAY(SELECT (e #>> '{}')::bigint FROM jsonb_array_elements(batch->'numbers') e);
  texts := ARRAY(SELECT e #>> '{}' FROM jsonb_array_elements(batch->'texts') e);
  bodies := ARRAY[CASE WHEN (batch->>'hasBody')::boolean THEN bytes END];
  IF ${text("fingerprint")} IS NOT NULL THEN
    INSERT INTO idempotency_keys
    VALUES (${tenant()}, ${text("idempotencyKey")}, ${text("taskId")}, ${text("fingerprint")})
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN RETURN known_task(1, names, numbers, texts, bodies)::text; END IF;
  END IF;
  PERFORM add_counts(slot, insert_tasks(at, slot, ARRAY[1],
    ROW(ARRAY[destination_id], ARRAY[0])::places, '{}', names, numbers, texts, bodies));
  IF batch->>'channel' IS NOT NULL THEN
    PERFORM pg_notify(current_schema() || (batch->>'channel'), notice);
  END IF;
  RETURN '["created"]';
EXCEPTION WHEN OTHERS THEN
  RETURN jsonb_build_array('failed', SQLSTATE, SQLERRM)::text;
END $$;
`;

/**
 * Beside the tables, and never dropped, because users grant it to roles. It runs with the rights of its
 * owner: a caller needs no right to the tables, only to this function.
 */
export const ENQUEUE_TASK = `
CREATE FUNCTION enqueue_task(xid text, destination_id int, at bigint, batch jsonb, bytes bytea,
  notice text)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
  result text;
BEGIN
  EXECUTE format('SELECT %I.store_enqueued($1, $2, $3, $4, $5, $6)',
    current_schema() || '_v' || (batch->>'version')::int)
  INTO result USING xid, destination_id, at, batch, bytes, notice;
  RETURN result;
END $$;
REVOKE EXECUTE ON FUNCTION enqueue_task FROM PUBLIC;
`;
