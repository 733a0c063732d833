/**
 * Older node: commits to a PostgreSQL store of schema 2 as a node of that version does, so that a test
 * upgrades the store meanwhile.
 */
import pg from "pg";

export interface OlderNode {
  /** The ids of the tasks whose end was acknowledged. */
  readonly settled: readonly string[];
  /** The SQLSTATE of the first commit that failed. */
  readonly failed: Promise<string>;
}

export interface OlderStore {
  readonly url: string;
  readonly schema: string;
  /** Epoch ms. */
  readonly now: number;
}

/** Creates and settles one task after the other, until a commit fails. `number` differs between nodes. */
export async function startOlderNode(
  { url, schema, now }: OlderStore,
  number: number,
): Promise<OlderNode> {
  const client = new pg.Client(url.split("?")[0]);
  await client.connect();
  const settled: string[] = [];
  // As that version does: a transaction that met another one is repeated.
  const commit = async (batch: object): Promise<void> => {
    while (await meets(() => commitOnce(batch)));
  };
  const commitOnce = (batch: object) =>
    client.query(`SELECT FROM ${schema}.commit_batch($1, 1, $2, $3, '')`, [
      ...[now, `older-${number}`, JSON.stringify(batch)],
    ]);
  const run = async () => {
    for (let last = 0; ; last++) {
      const taskId = `01a3185c-5000-7000-802${number}-${String(last).padStart(12, "0")}`;
      await commit(claimedCreate(taskId, now));
      const { rows } = await client.query(`SELECT ref FROM ${schema}.tasks WHERE task_id = $1`, [
        taskId,
      ]);
      await commit(settlement(taskId, rows[0].ref, now));
      settled.push(taskId);
    }
  };
  const failed = run().catch(async (error: { code?: string }) => {
    await client.end();
    return error.code ?? String(error);
  });
  return { settled, failed };
}

/** True: the server rolled it back, because it met another transaction. */
async function meets(work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    return false;
  } catch (error) {
    if (["40P01", "40001"].includes((error as { code?: string }).code ?? "")) return true;
    throw error;
  }
}

/** A task that its node claims at once. The cells are in the order of `new_task`. */
function claimedCreate(taskId: string, now: number): object {
  const destination = "https://older.example";
  const payload = {
    ...{ taskId, tenantId: "acme", idempotencyKey: null, destination, targetUrl: destination },
    ...{ method: "POST", headers: {}, bodyRef: null, policyId: "background", policyVersion: 0 },
    ...{ idempotent: true, deadlineAt: null, createdAt: now, scheduledAt: now, labels: {} },
    ...{ callbackUrl: null, redrivenFrom: null },
  };
  const cells = [
    ...[0, 0, "acme", taskId, 1, null, null, "background", 0, now, now, null, 0, 32],
    ...[JSON.stringify(payload), 0, null, null, null],
  ];
  return { names: [["acme", destination]], creates: [cells], isPlain: true };
}

/** The cells are in the order of `settlement`. */
function settlement(taskId: string, ref: string, now: number): object {
  const cells = [
    ...[0, 0, Number(ref), "acme", taskId, 1, 2, "succeeded", 0, now, 0, 0],
    ...[1, JSON.stringify({ attemptNumber: 1 }), 0, null, 200, true, null],
  ];
  return { settles: [cells] };
}
