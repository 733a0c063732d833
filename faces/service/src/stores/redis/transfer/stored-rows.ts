/** Stored rows: reads tasks with their keys, keys, and attempts of a Redis store, by their names. */
import type { DocumentTable } from "../../../model/document-table.ts";
import { partitionOf } from "../../../model/partition.ts";
import type { RetryTask } from "../../../model/task.ts";
import type {
  KeyRow,
  TransferAttempt,
  TransferKey,
  TransferTask,
} from "../../../model/transfer/transfer.ts";
import type { Link } from "../connection/link.ts";
import { bytesOf, listOf, type Reply, textOf } from "../connection/reply.ts";
import { taskReader } from "../read/task-reader.ts";
import { attemptOf } from "../rows/attempt-codec.ts";
import { joined, type Keys, PARTITIONS } from "../rows/keys.ts";
import { unpackList } from "../rows/message-pack.ts";
import type { DestinationTable } from "../tables/destination-table.ts";

export interface RowParts {
  readonly link: Link;
  readonly keys: Keys;
  readonly destinations: DestinationTable;
  readonly documents: DocumentTable;
}

/** The tasks that exist, each with the row of its key. */
export async function readTasks(
  parts: RowParts,
  tenantId: string,
  ids: readonly string[],
): Promise<readonly TransferTask[]> {
  const { link, keys } = parts;
  const tasks = await taskReader(link, keys)({ tenantId, taskIds: ids, withBody: true });
  return Promise.all(tasks.map(async (task) => ({ ...task, key: await keyOfTask(parts, task) })));
}

async function keyOfTask(parts: RowParts, task: RetryTask): Promise<KeyRow | null> {
  const { tenantId, taskId, idempotencyKey } = task;
  if (idempotencyKey === null) return null;
  const found = await readKey(parts, partitionOf(taskId, PARTITIONS), tenantId, idempotencyKey);
  if (found?.taskId !== taskId) return null;
  return { fingerprint: found.fingerprint, expiresAt: found.expiresAt };
}

/** Null: the partition has no such key. */
export async function readKey(
  { link, keys }: RowParts,
  partition: number,
  tenantId: string,
  idempotencyKey: string,
): Promise<TransferKey | null> {
  const base = keys.base(partition);
  const field = joined(tenantId, idempotencyKey);
  const [stored, score] = await Promise.all([
    link.call("hget", `${base}:k`, field),
    link.call("zscore", `${base}:ke`, field),
  ]);
  if (stored === null) return null;
  const [taskId, fingerprint] = unpackList(bytesOf(stored)) as [string, string];
  const expiresAt = score === null ? null : Number(textOf(score));
  return { tenantId, idempotencyKey, taskId, fingerprint, expiresAt };
}

export function attemptKey({ keys }: RowParts, tenantId: string, taskId: string): string {
  const base = keys.base(partitionOf(taskId, PARTITIONS));
  return `${base}:a:${joined(tenantId, taskId)}`;
}

export function attemptsOf(
  tenantId: string,
  taskId: string,
  list: Reply,
): readonly TransferAttempt[] {
  return listOf(list).map((one) => ({ tenantId, taskId, ...attemptOf(bytesOf(one)) }));
}
