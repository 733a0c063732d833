/** Memory transfer: reads and writes the rows of the memory store as they are. */
import type { RowPage } from "../../model/store.ts";
import { StoreRefusedError } from "../../model/store-errors.ts";
import {
  addedRows,
  compareRows,
  partsOf,
  positionOf,
  type Stored,
  type StoreTransfer,
  TAKEN,
  type TransferKey,
  type TransferKind,
  type TransferPage,
  type TransferRows,
  type TransferTask,
} from "../../model/transfer.ts";
import type { MemoryDocuments } from "./memory-documents.ts";
import type { MemoryNodes } from "./memory-nodes.ts";
import { keyOf, type Row, type Tables, taskOf } from "./rows.ts";

interface MemoryTransferParts {
  readonly tables: Tables;
  readonly documents: MemoryDocuments;
  readonly nodes: MemoryNodes;
  /** Records an instant that was stored. */
  readonly passed: (instant: number) => void;
}

/** How to read and add the rows of a kind. */
type RowAccess = {
  readonly [Kind in TransferKind]: {
    all(): readonly TransferRows[Kind][];
    find(row: TransferRows[Kind]): Stored<TransferRows[Kind]>;
    add(row: TransferRows[Kind]): void;
  };
};

export function memoryTransfer(parts: MemoryTransferParts): StoreTransfer {
  const access = rowAccess(parts);
  const compare = <Kind extends TransferKind>(kind: Kind, rows: readonly TransferRows[Kind][]) =>
    compareRows(
      kind,
      rows,
      rows.map((row) => access[kind].find(row)),
    );
  return {
    liveNodes: async () => parts.nodes.liveNodes(),
    read: async (kind, page) => pageOf(kind, access[kind].all(), page),
    compare: async (kind, rows) => compare(kind, rows),
    async write(kind, rows) {
      const results = compare(kind, rows);
      for (const row of addedRows(rows, results)) access[kind].add(row);
      return results;
    },
  };
}

function pageOf<Kind extends TransferKind>(
  kind: Kind,
  all: readonly TransferRows[Kind][],
  { limit, cursor }: RowPage,
): TransferPage<Kind> {
  const sorted = [...all].sort((one, other) =>
    comparePositions(positionOf(kind, one), positionOf(kind, other)),
  );
  const after = cursor === undefined ? undefined : (JSON.parse(cursor) as (string | number)[]);
  const rest = sorted.filter(
    (row) => after === undefined || comparePositions(positionOf(kind, row), after) > 0,
  );
  const rows = rest.slice(0, limit);
  const last = rest.length > limit ? rows.at(-1) : undefined;
  return { rows, cursor: last === undefined ? null : JSON.stringify(positionOf(kind, last)) };
}

/** Texts by their bytes, as in the stores on servers. */
function comparePositions(
  one: readonly (string | number)[],
  other: readonly (string | number)[],
): number {
  for (const [at, part] of one.entries()) {
    const rival = other[at] ?? 0;
    const order =
      typeof part === "number"
        ? part - Number(rival)
        : Buffer.compare(Buffer.from(part), Buffer.from(String(rival)));
    if (order !== 0) return order;
  }
  return 0;
}

function rowAccess({ tables, documents, passed }: MemoryTransferParts): RowAccess {
  const { rows, policies, destinations } = tables;
  return {
    policy: {
      all: () => [...policies.values()],
      find: (row) => policies.get(policyKey(row)) ?? null,
      add: (row) => void policies.set(policyKey(row), row),
    },
    destination: {
      all: () => [...destinations.values()],
      find: ({ tenantId, name }) => destinations.get(keyOf(tenantId, name)) ?? null,
      add: (row) => void destinations.set(keyOf(row.tenantId, row.name), row),
    },
    document: {
      all: () => documents.all(),
      find: ({ kind, tenantId, id }) => documents.find(kind, tenantId, id) ?? null,
      add: (row) => documents.restore(row),
    },
    task: {
      all: () => [...rows.all()].map((row) => transferTask(tables, row)),
      find(task) {
        const row = rows.find(task.tenantId, task.taskId);
        if (row !== undefined) return transferTask(tables, row);
        return task.key !== null && tables.keys.has(keyNameOf(task)) ? TAKEN : null;
      },
      add(task) {
        passed(Math.max(task.createdAt, task.claimedAt ?? 0, task.finishedAt ?? 0));
        addTask(tables, task);
      },
    },
    attempt: {
      all: () =>
        [...rows.all()].flatMap(({ task: { tenantId, taskId }, attempts }) =>
          attempts.map((log) => ({ tenantId, taskId, ...log })),
        ),
      find({ tenantId, taskId, attemptNumber }) {
        const attempts = rows.find(tenantId, taskId)?.attempts ?? [];
        const log = attempts.find((one) => one.attemptNumber === attemptNumber);
        return log === undefined ? null : { tenantId, taskId, ...log };
      },
      add({ tenantId, taskId, ...log }) {
        const row = rows.find(tenantId, taskId);
        if (row === undefined)
          throw new StoreRefusedError(`the task ${taskId} of an attempt is missing`);
        row.attempts.push(log);
        passed(log.startedAt + log.durationMs);
      },
    },
    key: keyAccess(tables),
  };
}

/** The keys whose task was removed. Those of tasks are a part of the task. */
function keyAccess({ rows, keys }: Tables): RowAccess["key"] {
  const keyRow = (name: string): TransferKey | null => {
    const entry = keys.get(name);
    const [tenantId = "", idempotencyKey = ""] = name.split("\n");
    if (entry === undefined) return null;
    const { taskId, fingerprint, expiresAt } = entry;
    return { tenantId, idempotencyKey, taskId, fingerprint, expiresAt: finiteOrNull(expiresAt) };
  };
  return {
    all: () =>
      [...keys.keys()]
        .flatMap((name) => keyRow(name) ?? [])
        .filter(({ tenantId, taskId }) => rows.find(tenantId, taskId) === undefined),
    find: (row) => keyRow(keyNameOf(row)),
    add: (row) =>
      void keys.set(keyNameOf(row), {
        taskId: row.taskId,
        fingerprint: row.fingerprint,
        expiresAt: row.expiresAt ?? Number.POSITIVE_INFINITY,
      }),
  };
}

function policyKey({ tenantId, policyId, version }: TransferRows["policy"]): string {
  return keyOf(tenantId, policyId, String(version));
}

function keyNameOf(row: {
  readonly tenantId: string;
  readonly idempotencyKey: string | null;
}): string {
  return keyOf(row.tenantId, row.idempotencyKey ?? "");
}

function finiteOrNull(instant: number): number | null {
  return Number.isFinite(instant) ? instant : null;
}

function transferTask({ keys }: Tables, row: Row): TransferTask {
  const task = taskOf(row);
  const entry = task.idempotencyKey === null ? undefined : keys.get(keyNameOf(task));
  if (entry?.taskId !== task.taskId) return { ...task, key: null };
  const { fingerprint, expiresAt } = entry;
  return { ...task, key: { fingerprint, expiresAt: finiteOrNull(expiresAt) } };
}

function addTask({ rows, keys }: Tables, row: TransferTask): void {
  const { task, state } = partsOf(row);
  if (row.key !== null) {
    const { fingerprint, expiresAt } = row.key;
    const entry = { taskId: task.taskId, fingerprint };
    keys.set(keyNameOf(task), { ...entry, expiresAt: expiresAt ?? Number.POSITIVE_INFINITY });
  }
  rows.add(task, state);
}
