/**
 * Read tasks: reads the database of a dead process directly, like an auditor, not through the code
 * under test.
 */
import { DatabaseSync } from "@photostructure/sqlite";

export interface FoundTask {
  readonly taskId: string;
  readonly idempotencyKey: string | null;
  readonly status: string;
  readonly attemptNumber: number;
}

const STATUSES = ["PENDING", "IN_FLIGHT", "SUCCEEDED", "EXHAUSTED", "CANCELLED"];

export function readTasks(file: string, { check = false } = {}): readonly FoundTask[] {
  const database = new DatabaseSync(file);
  try {
    if (check) {
      const found = database.prepare("PRAGMA integrity_check").get() as Record<string, unknown>;
      if (found["integrity_check"] !== "ok") throw new Error(JSON.stringify(found));
    }
    const rows = database
      .prepare(
        `SELECT t.task_id, p.idempotency_key, t.status, t.attempt_number
         FROM tasks t JOIN payloads p ON p.ref = t.ref`,
      )
      .all() as unknown as Record<string, string | number | null>[];
    return rows.map((row) => ({
      taskId: String(row["task_id"]),
      idempotencyKey: row["idempotency_key"] as string | null,
      status: STATUSES[Number(row["status"])] ?? "?",
      attemptNumber: Number(row["attempt_number"]),
    }));
  } finally {
    database.close();
  }
}
