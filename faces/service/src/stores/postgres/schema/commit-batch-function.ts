/**
 * Commit batch function: carries out a batch in the order of the contract, by the functions of the
 * other files. What every commit of a busy node has is in arrays; what is rare is in one JSON value.
 */
import { CREATE_ARGUMENTS } from "./batch-cells.ts";
import { CLAIM_STATEMENT } from "./claim-functions.ts";

/**
 * The settings are those of the statements inside: each of them finds its rows by an index, whatever
 * the planner knows of the tables. A plan is made once: the planner would prefer one for each length of
 * an array, which takes longer than a small commit.
 */
export const COMMIT_BATCH_FUNCTION = `
CREATE FUNCTION commit_batch(at bigint, kept_ms bigint, node text, rest jsonb, create_count int,
  ${CREATE_ARGUMENTS}, settle_numbers bigint[], settle_texts text[], settle_bodies bytea[])
RETURNS SETOF commit_row LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
SET plan_cache_mode = force_generic_plan SET lock_timeout = 3000
AS $$
DECLARE
  refused int[] := '{}';
  id int;
  e jsonb;
  known places;
  made steps;
  created record;
  settled record;
  canceled record;
  verdicts verdict[] := '{}';
  settle_count int := cardinality(settle_bodies);
  d record;
  partitions int[];
  may_start boolean;
  claimed_count int;
BEGIN
  IF current_setting('synchronous_commit') = 'off' THEN PERFORM make_durable(); END IF;
  IF settle_count > 0 AND NOT EXISTS (SELECT FROM attempt_days WHERE day = at / 86400000) THEN
    RAISE EXCEPTION 'no partition for attempts' USING ERRCODE = 'RD001';
  END IF;
  IF names IS NOT NULL THEN PERFORM pg_advisory_xact_lock_shared(creates_lock()); END IF;
  IF rest ? 'rowLocks' THEN PERFORM lock_rows(rest->'rowLocks'); END IF;
  IF rest ?| '{named,sources}' THEN PERFORM lock_tasks(rest->'named', rest->'sources'); END IF;
  IF rest ? 'destinations' THEN
    FOR e IN SELECT * FROM jsonb_array_elements(rest->'destinations') LOOP
      id := write_destination(e);
      IF id IS NOT NULL THEN
        refused := refused || id;
        RETURN NEXT ROW('destinations', (e->>9)::int, destination_json(id)::text, NULL)::commit_row;
      END IF;
    END LOOP;
  END IF;
  IF names IS NOT NULL THEN known := find_places(names); END IF;
  IF rest ? 'startsTasks' THEN
    PERFORM add_claimant(node);
    RETURN QUERY SELECT * FROM refused_claims(create_count, known, refused, numbers);
  END IF;
  IF create_count > 0 THEN
    IF rest ? 'isPlain' AND (NOT rest ? 'policies' OR have_policies(rest->'policies')) THEN
      made := insert_tasks(at, node, ARRAY(SELECT generate_series(1, create_count)), known, refused,
        names, numbers, texts, bodies);
    ELSE
      created := create_tasks(at, node, create_count, known, refused,
        NOT rest ? 'policies' OR have_policies(rest->'policies'), names, numbers, texts, bodies);
      made := created.made;
      RETURN QUERY SELECT o.* FROM unnest(created.others) o;
    END IF;
  END IF;
  IF settle_count > 0 THEN
    settled := settle_tasks(at, kept_ms, coalesce(rest ? 'followers', false), settle_count,
      settle_numbers, settle_texts, settle_bodies);
    made := add_steps(made, settled.made);
    IF settled.verdicts IS NOT NULL
      OR cardinality(settled.found_items) IS DISTINCT FROM settle_count THEN
      RETURN QUERY SELECT * FROM unusual_settles(settle_count, settled.found_items,
        settled.verdicts);
    END IF;
    IF rest ? 'followers' THEN
      made := add_steps(made, insert_followers(at, node, create_count, rest->'followers', known,
        settled.verdicts, names, numbers, texts, bodies));
    END IF;
  END IF;
  IF rest ? 'cancels' THEN
    FOR e IN SELECT * FROM jsonb_array_elements(rest->'cancels') LOOP
      canceled := cancel_task(at, kept_ms, e->>0, e->>1);
      IF canceled.made IS NOT NULL THEN
        verdicts := verdicts || ROW((e->>2)::int, 4)::verdict;
        made := add_steps(made, canceled.made);
      END IF;
      RETURN NEXT ROW('cancels', (e->>2)::int, canceled.result::text, NULL)::commit_row;
    END LOOP;
    IF rest ? 'canceledFollowers' THEN
      made := add_steps(made, insert_followers(at, node,
        create_count + jsonb_array_length(coalesce(rest->'followers', '[]')),
        rest->'canceledFollowers', known, verdicts, names, numbers, texts, bodies));
    END IF;
  END IF;
  IF rest ? 'retryNows' THEN
    FOR e IN SELECT * FROM jsonb_array_elements(rest->'retryNows') LOOP
      RETURN NEXT ROW('retryNows', (e->>2)::int, retry_now(at, e->>0, e->>1)::text, NULL)::commit_row;
    END LOOP;
  END IF;
  IF rest ? 'claims' THEN
    PERFORM add_claimant(node), set_config('bytea_output', 'escape', true);
    FOR e IN SELECT * FROM jsonb_array_elements(rest->'claims') LOOP
      partitions := ARRAY(SELECT p::int FROM jsonb_array_elements(e->4) p);
      SELECT destination_id, version INTO d FROM destinations
      WHERE tenant_id = e->>1 AND name = e->>2;
      IF may_claim(d.version, (e->>8)::int, d.destination_id = ANY (refused)) THEN
        ${CLAIM_STATEMENT}
        GET DIAGNOSTICS claimed_count = ROW_COUNT;
      ELSE
        claimed_count := 0;
      END IF;
      IF claimed_count > 0 THEN
        made := add_steps(made, ROW(ARRAY[d.destination_id, d.destination_id], ARRAY[0, 1],
          ARRAY[-claimed_count, claimed_count])::steps);
        may_start := true;
      ELSE
        may_start := (SELECT may_claim(x.version, (e->>8)::int, x.destination_id = ANY (refused))
          FROM destinations x WHERE x.destination_id = d.destination_id);
      END IF;
      RETURN NEXT ROW('claims', (e->>0)::int, jsonb_build_array(
        next_due_ats(d.destination_id, (e->>3)::int, partitions),
        CASE WHEN NOT may_start THEN destination_json(d.destination_id) END)::text, NULL)::commit_row;
    END LOOP;
  END IF;
  IF made IS NOT NULL THEN PERFORM add_counts(node, made); END IF;
  IF rest ? 'hints' THEN PERFORM write_hints(node, rest->'hints'); END IF;
  IF rest ? 'documents' THEN
    FOR e IN SELECT * FROM jsonb_array_elements(rest->'documents') LOOP
      PERFORM write_document(e);
    END LOOP;
  END IF;
END $$;
`;
