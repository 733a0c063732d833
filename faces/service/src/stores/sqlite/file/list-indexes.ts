/**
 * List indexes: a migration with the indexes that lists read. Each is sorted by task id, so a list
 * reads any of them newest first. Claims and retries change none of them. The reason for each and
 * its cost are in docs/decisions/0021. An entry of `tasks_open` has `finished_at`, always null:
 * without it, SQLite reads every row to check the condition of the index.
 */

/**
 * `task_terms` is an index of labels, and of idempotency keys under the empty name, which no label
 * has. The current task of a key is in `idempotency_keys` already and has no row here: only tasks
 * without a row there do, such as redriven ones, and tasks that outlive their key. Triggers maintain
 * it like any index. They join `tasks`, whose row is inserted before the payload and deleted after.
 */
const LABELS = (row: "new" | "old") => `
  SELECT t.tenant_id, l.key AS name, l.value, t.task_id, t.ref
  FROM tasks t, json_each(${row}.labels) l WHERE t.ref = ${row}.ref`;

const HAS_NO_KEY_ROW = `NOT EXISTS (SELECT 1 FROM idempotency_keys k WHERE k.tenant_id = t.tenant_id
  AND k.idempotency_key = p.idempotency_key AND k.task_id = t.task_id)`;

const KEYS = `SELECT t.tenant_id, '', p.idempotency_key, t.task_id, t.ref
  FROM tasks t JOIN payloads p ON p.ref = t.ref
  WHERE p.idempotency_key IS NOT NULL AND ${HAS_NO_KEY_ROW}`;

export const LIST_INDEXES = `
CREATE INDEX tasks_open ON tasks (tenant_id, task_id, finished_at) WHERE finished_at IS NULL;
CREATE INDEX tasks_canceled ON tasks (tenant_id, task_id) WHERE status = 4;
CREATE INDEX tasks_of_destination ON tasks (destination_id, task_id);
CREATE INDEX tasks_dead_of_destination ON tasks (destination_id, task_id) WHERE status = 3;
CREATE INDEX tasks_dead_reason ON tasks (tenant_id, reason, task_id) WHERE status = 3;

CREATE TABLE task_terms (
  tenant_id TEXT NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  task_id TEXT NOT NULL,
  ref INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, name, value, task_id)
) STRICT, WITHOUT ROWID;

INSERT INTO task_terms ${KEYS};
INSERT INTO task_terms SELECT t.tenant_id, l.key, l.value, t.task_id, t.ref
  FROM tasks t JOIN payloads p ON p.ref = t.ref, json_each(p.labels) l WHERE p.labels <> '{}';

CREATE TRIGGER labels_added AFTER INSERT ON payloads WHEN new.labels <> '{}'
BEGIN INSERT OR IGNORE INTO task_terms ${LABELS("new")}; END;

CREATE TRIGGER labels_removed BEFORE DELETE ON payloads WHEN old.labels <> '{}'
BEGIN
  DELETE FROM task_terms WHERE (tenant_id, name, value, task_id) IN
    (SELECT tenant_id, name, value, task_id FROM (${LABELS("old")}));
END;

CREATE TRIGGER key_of_other_task_added AFTER INSERT ON payloads WHEN new.idempotency_key IS NOT NULL
BEGIN INSERT OR IGNORE INTO task_terms ${KEYS} AND p.ref = new.ref; END;

CREATE TRIGGER key_of_other_task_removed BEFORE DELETE ON payloads
WHEN old.idempotency_key IS NOT NULL
BEGIN
  DELETE FROM task_terms WHERE name = '' AND value = old.idempotency_key AND
    (tenant_id, task_id) = (SELECT t.tenant_id, t.task_id FROM tasks t WHERE t.ref = old.ref);
END;

CREATE TRIGGER key_expired AFTER DELETE ON idempotency_keys
BEGIN
  INSERT OR IGNORE INTO task_terms
    SELECT t.tenant_id, '', old.idempotency_key, t.task_id, t.ref FROM tasks t
    WHERE t.tenant_id = old.tenant_id AND t.task_id = old.task_id;
END;
`;
