/**
 * Row writer: finds and adds the rows of a Redis store as they are. A script adds the rows of one
 * partition, and all others are on one server.
 */
import { partitionOf } from "../../../model/partition.ts";
import { INLINE_PREFIX } from "../../../model/store.ts";
import { StoreRefusedError } from "../../../model/store-errors.ts";
import { positionOf, type Stored, TAKEN } from "../../../model/transfer/compare.ts";
import { partsOf } from "../../../model/transfer/rows.ts";
import type {
  TransferAttempt,
  TransferKind,
  TransferRows,
  TransferTask,
} from "../../../model/transfer/transfer.ts";
import { allDone } from "../connection/failure.ts";
import { bytesOrNull, listOf, type Reply } from "../connection/reply.ts";
import { packAttempt } from "../rows/attempt-codec.ts";
import { packRow } from "../rows/destination-codec.ts";
import { joined, PARTITIONS } from "../rows/keys.ts";
import { type Packable, pack, unpackList } from "../rows/message-pack.ts";
import { packHead, stateOf } from "../rows/task-codec.ts";
import type { Script } from "../scripts/script.ts";
import {
  RESTORE_ATTEMPTS,
  RESTORE_DOCUMENTS,
  RESTORE_KEYS,
  RESTORE_POLICIES,
  RESTORE_ROWS,
  RESTORE_TASKS,
} from "../scripts/transfer-scripts.ts";
import type { RowVersion } from "../tables/destination-table.ts";
import { policyOf } from "../tables/policy-table.ts";
import { attemptKey, attemptsOf, type RowParts, readKey, readTasks } from "./stored-rows.ts";

type RowWriter = {
  readonly [Kind in TransferKind]: {
    find(rows: readonly TransferRows[Kind][]): Promise<readonly Stored<TransferRows[Kind]>[]>;
    add(rows: readonly TransferRows[Kind][]): Promise<void>;
  };
};

export function rowWriter(parts: RowParts): RowWriter {
  const { documents } = parts;
  return {
    policy: policyWriter(parts),
    destination: destinationWriter(parts),
    document: {
      find: (rows) =>
        Promise.all(rows.map(({ kind, tenantId, id }) => documents.get(kind, tenantId, id))),
      async add(rows) {
        const items = rows.map((row) => [
          row.kind,
          joined(row.tenantId, row.id),
          row.version,
          row.text,
        ]);
        await addAll([runOnControl(parts, RESTORE_DOCUMENTS, [pack(items)])]);
      },
    },
    task: taskWriter(parts),
    attempt: attemptWriter(parts),
    key: {
      find: (rows) =>
        Promise.all(
          rows.map(({ tenantId, idempotencyKey, taskId }) =>
            readKey(parts, partitionOf(taskId, PARTITIONS), tenantId, idempotencyKey),
          ),
        ),
      add: (rows) =>
        addByPartition(parts, RESTORE_KEYS, rows, (row) => [
          joined(row.tenantId, row.idempotencyKey),
          row.taskId,
          row.fingerprint,
          row.expiresAt,
        ]),
    },
  };
}

function runOnControl({ link, keys }: RowParts, script: Script, args: readonly Buffer[]) {
  return link.run(script, [keys.control], args);
}

/** Another process has added one of the rows since they were compared. */
async function addAll(runs: readonly Promise<Reply>[]): Promise<void> {
  const refused = (await allDone(runs)).find((reply) => reply !== 0);
  if (refused === undefined) return;
  throw new Error(`the store was changed meanwhile: ${String(refused).replace("\n", " ")}`);
}

function groupBy<Row, Key>(rows: readonly Row[], keyOf: (row: Row) => Key): Map<Key, Row[]> {
  const groups = new Map<Key, Row[]>();
  for (const row of rows) {
    const group = groups.get(keyOf(row)) ?? [];
    groups.set(keyOf(row), group);
    group.push(row);
  }
  return groups;
}

/** Runs the script in each partition with the items of its tasks. */
function addByPartition<Row extends { readonly taskId: string }>(
  { link, keys }: RowParts,
  script: Script,
  rows: readonly Row[],
  itemOf: (row: Row) => Packable,
): Promise<void> {
  const items = groupBy(rows, ({ taskId }) => partitionOf(taskId, PARTITIONS));
  const runs = [...items].map(([partition, own]) =>
    link.run(script, [keys.base(partition)], [pack(own.map(itemOf))]),
  );
  return addAll(runs);
}

function policyWriter(parts: RowParts): RowWriter["policy"] {
  const { link, keys } = parts;
  const nameOf = (row: TransferRows["policy"]) => joined(row.tenantId, row.policyId);
  return {
    async find(rows) {
      if (rows.length === 0) return [];
      const fields = rows.map((row) => joined(nameOf(row), String(row.version)));
      const found = listOf(await link.call("hmget", `${keys.control}:pr`, ...fields));
      return found.map((row) => {
        const bytes = bytesOrNull(row);
        return bytes === null ? null : policyOf(unpackList(bytes));
      });
    },
    async add(rows) {
      const items = rows.map((row) => {
        const { tenantId, policyId, version, document, createdAt, removedAt } = row;
        const packed = pack([tenantId, policyId, version, document, createdAt, removedAt]);
        const isInline = policyId.startsWith(INLINE_PREFIX) ? 1 : 0;
        return [nameOf(row), version, packed, removedAt, isInline];
      });
      await addAll([runOnControl(parts, RESTORE_POLICIES, [pack(items)])]);
    },
  };
}

function destinationWriter(parts: RowParts): RowWriter["destination"] {
  const { destinations } = parts;
  return {
    find: (rows) =>
      Promise.all(
        rows.map(async ({ tenantId, name }) => {
          const [row = null] = await destinations.readNames(tenantId, [name]);
          return row;
        }),
      ),
    async add(rows) {
      await addAll([runOnControl(parts, RESTORE_ROWS, rows.map(packRow))]);
      const versions = rows.map(
        ({ tenantId, name, version }): RowVersion => [joined(tenantId, name), version],
      );
      await allDone(destinations.raise(versions), true);
      destinations.recordRaised(versions);
    },
  };
}

function taskWriter(parts: RowParts): RowWriter["task"] {
  return {
    async find(rows) {
      const byTenant = groupBy(rows, ({ tenantId }) => tenantId);
      const found = await Promise.all(
        [...byTenant].map(([tenantId, own]) =>
          readTasks(parts, tenantId, [...new Set(own.map(({ taskId }) => taskId))]),
        ),
      );
      const nameOf = ({ tenantId, taskId }: TransferTask) => joined(tenantId, taskId);
      const byName = new Map(found.flat().map((task) => [nameOf(task), task]));
      return Promise.all(rows.map((row) => byName.get(nameOf(row)) ?? findTaken(parts, row)));
    },
    add: (rows) =>
      addByPartition(parts, RESTORE_TASKS, rows, (row) => {
        const { task } = partsOf(row);
        const { fingerprint = null, expiresAt = null } = row.key ?? {};
        const name = [row.tenantId, row.taskId];
        return [...name, stateOf(row), packHead(task), row.body, fingerprint, expiresAt];
      }),
  };
}

/** A task that is not stored, but whose key may be. */
async function findTaken(parts: RowParts, row: TransferTask): Promise<typeof TAKEN | null> {
  const { key, idempotencyKey, tenantId, taskId } = row;
  if (key === null || idempotencyKey === null) return null;
  const partition = partitionOf(taskId, PARTITIONS);
  return (await readKey(parts, partition, tenantId, idempotencyKey)) === null ? null : TAKEN;
}

function attemptWriter(parts: RowParts): RowWriter["attempt"] {
  const { link } = parts;
  const nameOf = ({ tenantId, taskId }: TransferAttempt) => joined(tenantId, taskId);
  /** The attempts of the tasks of rows, by the names of the tasks. */
  async function storedOf(rows: readonly TransferAttempt[]) {
    const tasks = [...new Map(rows.map((row) => [nameOf(row), row])).values()];
    const lists = await Promise.all(
      tasks.map(({ tenantId, taskId }) =>
        link.call("lrange", attemptKey(parts, tenantId, taskId), 0, -1),
      ),
    );
    const attempts = tasks.map(({ tenantId, taskId }, at) =>
      attemptsOf(tenantId, taskId, lists[at] ?? []),
    );
    return new Map(tasks.map((task, at) => [nameOf(task), attempts[at] ?? []]));
  }
  return {
    async find(rows) {
      const stored = [...(await storedOf(rows)).values()].flat();
      const textOf = (row: TransferAttempt) => JSON.stringify(positionOf("attempt", row));
      const byPosition = new Map(stored.map((row) => [textOf(row), row]));
      return rows.map((row) => byPosition.get(textOf(row)) ?? null);
    },
    async add(rows) {
      await assertTasks(parts, rows);
      const stored = await storedOf(rows);
      const byTask = [...groupBy(rows, nameOf)].map(([name, own]) => ({
        taskId: own[0]?.taskId ?? "",
        item: [name, stored.get(name)?.length ?? 0, ...own.map(packAttempt)],
      }));
      await addByPartition(parts, RESTORE_ATTEMPTS, byTask, ({ item }) => item);
    },
  };
}

async function assertTasks(
  { link, keys }: RowParts,
  rows: readonly TransferAttempt[],
): Promise<void> {
  const found = await Promise.all(
    rows.map(({ tenantId, taskId }) => {
      const base = keys.base(partitionOf(taskId, PARTITIONS));
      return link.call("hexists", `${base}:s`, joined(tenantId, taskId));
    }),
  );
  const missing = rows.find((_, at) => found[at] === 0);
  if (missing === undefined) return;
  throw new StoreRefusedError(`the task ${missing.taskId} of an attempt is missing`);
}
