/**
 * Outbox functions: store a task inside a transaction of a caller, which may stay open for long. So
 * they leave no lock behind that a commit of a node waits for, except the one on the task's own key:
 *
 * - The destination is inserted by a connection of the store, not by the caller's transaction.
 * - Counts and hints have a slot of the transaction, which the next removal of unused rows merges.
 * - Advisory locks keep the policy and the destination. A removal skips what is locked.
 *
 * Policy and destination are read by the store's connection: in the isolation level REPEATABLE READ, the
 * caller's transaction cannot see rows that are younger than its first statement.
 */

/** Migration 2. The removal functions are those of migration 1 with a test of the item's lock. */
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
`;
