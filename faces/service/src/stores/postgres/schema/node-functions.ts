/**
 * Node functions: the exchange that a node makes about once a second: its lease and its
 * shares of the limits. Leases are judged by the server's clock, read after all locks were taken.
 */
import { LATE_REPORT, RETIRED_ROUND } from "../../../model/node-report.ts";

export const NODE_FUNCTIONS = `
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
    CASE WHEN d.version > 0 AND d.version <> c.version THEN destination_json(d.destination_id)
      -- What the node knows of a row that is gone may be a pause.
      WHEN coalesce(d.version, 0) = 0 AND c.version > 0 AND c.version < missing_version()
        THEN jsonb_build_array(c.tenant_id, c.name, missing_version(), NULL, NULL, 0, 'CLOSED', 0, 0)
      END))
  INTO granted_shares
  FROM capped c LEFT JOIN destinations d ON d.tenant_id = c.tenant_id AND d.name = c.name;
  RETURN granted_shares;
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

CREATE FUNCTION renew_node(report jsonb) RETURNS jsonb LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
SET lock_timeout = 3000
AS $$
DECLARE
  me text := report->>'nodeId';
  leaving boolean := (report->>'isLeaving')::boolean;
  wants_all boolean := (report->>'takesAll')::boolean;
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
  INSERT INTO nodes AS n (node_id, lease_until, takes_all, is_leaving, round)
  VALUES (me, at + (report->>'leaseMs')::bigint, takes, leaving, (report->>'round')::bigint)
  ON CONFLICT (node_id) DO UPDATE SET lease_until = excluded.lease_until,
    takes_all = excluded.takes_all, is_leaving = excluded.is_leaving, round = excluded.round
  WHERE n.round <= excluded.round;
  IF NOT FOUND THEN RAISE EXCEPTION '${LATE_REPORT}' USING ERRCODE = 'RD002'; END IF;
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
    'shares', granted);
END $$;

-- Ends the lease of a node for good: every report that arrives later is too old.
CREATE FUNCTION retire_node(me text) RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT SET lock_timeout = 3000
AS $$
BEGIN
  PERFORM make_durable();
  PERFORM pg_advisory_xact_lock(nodes_lock());
  INSERT INTO nodes AS n (node_id, lease_until, takes_all, is_leaving, round)
  VALUES (me, clock_ms(), false, true, ${RETIRED_ROUND})
  ON CONFLICT (node_id) DO UPDATE SET lease_until = excluded.lease_until, takes_all = false,
    is_leaving = true, round = excluded.round;
  DELETE FROM shares WHERE node_id = me;
END $$;
`;
