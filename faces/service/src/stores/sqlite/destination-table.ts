/**
 * Destination table: destinations, node numbers and task counts. This process is the only writer,
 * so rows that were read are cached: a claim compares versions without reading the disk. The cache
 * is bounded, and a rollback forgets only the rows that the transaction touched.
 */

import type { DestinationWrite, Settle, StoreRef } from "../../model/batch.ts";
import { blankDestination, type DestinationRow } from "../../model/destination-row.ts";
import type { TaskStatus } from "../../model/task.ts";
import { ANY_LIMIT, type Sql } from "./file/sql.ts";
import {
  type Cell,
  DESTINATION_COLUMNS,
  DESTINATION_ID,
  destinationCells,
  destinationOf,
  destinationState,
  INSERT_DESTINATION,
  statusNumber,
  UPDATE_DESTINATION,
} from "./rows.ts";

export interface StoredDestination {
  readonly id: number;
  row: DestinationRow;
}

/** A claim that this process has made and not ended. */
interface StoredClaim {
  readonly epoch: number;
  readonly taskId: string;
  readonly stored: StoredDestination;
}

/** Changes of counts, by destination id times 8 plus status. */
type CountChanges = Map<number, number>;

/** A few MiB. Further destinations are read again when they are used. */
const MAX_CACHED = 10_000;

export class DestinationTable {
  readonly #statements: ReturnType<typeof statementsOf>;
  readonly #byName = new Map<string, StoredDestination>();
  readonly #byId = new Map<number, StoredDestination>();
  readonly #nodes = new Map<string, number>();
  readonly #steps: CountChanges = new Map();
  /** The claims of this process, by row number of the task. */
  readonly #claims = new Map<StoreRef, StoredClaim>();
  /** The row number of the latest task; undefined until it is needed. */
  #lastRef: number | undefined;
  /** The destinations that the current transaction or the one before it inserted or wrote. */
  #touched: StoredDestination[] = [];
  #touchedBefore: StoredDestination[] = [];
  /** The number of rows that were read from the disk, for tests. */
  reads = 0;

  constructor(sql: Sql) {
    this.#statements = statementsOf(sql);
  }

  /** The number of rows in the cache. */
  get cached(): number {
    return this.#byId.size;
  }

  /** Call after a rollback: the cache may hold what was undone. Only that is read again. */
  undo(): void {
    for (const stored of this.#touched) this.forget(stored);
    for (const stored of this.#touchedBefore) this.forget(stored);
    this.#touched = [];
    this.#touchedBefore = [];
    this.#nodes.clear();
    this.#steps.clear();
    this.#claims.clear();
    this.#lastRef = undefined;
  }

  /** A task of the destination is claimed. Its end need not read the row to count it. */
  keepClaim(ref: StoreRef, epoch: number, taskId: string, stored: StoredDestination): void {
    this.#claims.set(ref, { epoch, taskId, stored });
  }

  /**
   * The destination of a claim, which ends now. Undefined: another process made it, or it is not the
   * current claim of its task.
   */
  takeClaim({ ref, claimEpoch, taskId }: Settle): StoredDestination | undefined {
    const claim = this.#claims.get(ref);
    if (claim === undefined || claim.epoch !== claimEpoch || claim.taskId !== taskId) {
      return undefined;
    }
    this.#claims.delete(ref);
    return claim.stored;
  }

  /** The row number for a new task. Asking SQLite for the number that it chose costs microseconds. */
  newRef(): number {
    this.#lastRef ??= (this.#statements.lastRef.get() as unknown as readonly number[])[0] ?? 0;
    this.#lastRef++;
    return this.#lastRef;
  }

  /** Removes a destination from the cache. */
  forget({ id, row }: StoredDestination): void {
    this.#byName.delete(keyOf(row.tenantId, row.name));
    this.#byId.delete(id);
  }

  /** Removes a node from the cache. */
  forgetNode(nodeId: string): void {
    this.#nodes.delete(nodeId);
  }

  #keep(id: number, row: DestinationRow): StoredDestination {
    const stored = { id, row };
    this.#byName.set(keyOf(row.tenantId, row.name), stored);
    this.#byId.set(id, stored);
    return stored;
  }

  #find(tenantId: string, name: string): StoredDestination | undefined {
    const known = this.#byName.get(keyOf(tenantId, name));
    return known ?? this.#keepCells(this.#statements.selectByName.get(tenantId, name));
  }

  #keepCells(cells: unknown): StoredDestination | undefined {
    this.reads++;
    if (cells === undefined) return undefined;
    const found = cells as readonly Cell[];
    return this.#keep(found[DESTINATION_ID] as number, destinationOf(found));
  }

  /** The destination; a new one is inserted. */
  getOrInsert(tenantId: string, name: string): StoredDestination {
    const known = this.#find(tenantId, name);
    if (known !== undefined) return known;
    const row = blankDestination(tenantId, name);
    const { lastInsertRowid } = this.#statements.insert.run(...destinationCells(row));
    const stored = this.#keep(Number(lastInsertRowid), row);
    this.#touched.push(stored);
    return stored;
  }

  byId(id: number): StoredDestination {
    const stored = this.#byId.get(id) ?? this.#keepCells(this.#statements.selectById.get(id));
    if (stored === undefined)
      throw new Error(`a task names destination ${id}, which does not exist`);
    return stored;
  }

  /** Null if no row was written for it. */
  row(tenantId: string, name: string): DestinationRow | null {
    const row = this.#find(tenantId, name)?.row;
    this.#trim();
    return row === undefined || row.version === 0 ? null : row;
  }

  /** Null: written. Otherwise the current row, and the destination is added to `refused`. */
  write({ row }: DestinationWrite, refused: Set<StoredDestination>): DestinationRow | null {
    const stored = this.getOrInsert(row.tenantId, row.name);
    if (stored.row.version !== row.version - 1) {
      refused.add(stored);
      return stored.row;
    }
    this.restore(row);
    return null;
  }

  /** Writes a row of any version. */
  restore(row: DestinationRow): void {
    const stored = this.getOrInsert(row.tenantId, row.name);
    this.#statements.update.run(...destinationState(row), stored.id);
    stored.row = row;
    this.#touched.push(stored);
  }

  openCircuits(tenantId: string, limit: number): readonly DestinationRow[] {
    const rows = this.#statements.selectOpen.all(tenantId, limit);
    return (rows as unknown as readonly Cell[][]).map(destinationOf);
  }

  /** The number of a node; a new one is inserted. */
  nodeNumber(nodeId: string): number {
    const known = this.#nodes.get(nodeId);
    if (known !== undefined) return known;
    const { selectNode, insertNode } = this.#statements;
    const row = selectNode.get(nodeId) as unknown as readonly number[] | undefined;
    const number = row?.[0] ?? Number(insertNode.run(nodeId).lastInsertRowid);
    this.#nodes.set(nodeId, number);
    return number;
  }

  /** Moves a task between states in the counts; `flush` writes them, within the transaction. */
  tally(stored: StoredDestination, from: TaskStatus | null, to: TaskStatus | null): void {
    if (from !== null) this.#step(stored, from, -1);
    if (to !== null) this.#step(stored, to, 1);
  }

  #step({ id }: StoredDestination, status: TaskStatus, by: number): void {
    const key = id * 8 + statusNumber(status);
    this.#steps.set(key, (this.#steps.get(key) ?? 0) + by);
  }

  /** Call at the end of a transaction that writes tasks or rows. */
  flush(): void {
    for (const [key, by] of this.#steps) {
      if (by !== 0) this.#statements.addCount.get(Math.floor(key / 8), key % 8, by);
    }
    this.#steps.clear();
    this.#touchedBefore = this.#touched;
    this.#touched = [];
    this.#trim();
  }

  /**
   * Not while a transaction uses the entries: within one, a destination must be one object. Half of
   * the entries go, the oldest first, so that the cost is spread over many reads.
   */
  #trim(): void {
    if (this.#byId.size <= MAX_CACHED) return;
    for (const stored of this.#byId.values()) {
      if (this.#byId.size <= MAX_CACHED / 2) return;
      this.forget(stored);
    }
  }
}

function keyOf(tenantId: string, name: string): string {
  return `${tenantId}\n${name}`;
}

function statementsOf(sql: Sql) {
  return {
    selectByName: sql.prepare(`SELECT ${DESTINATION_COLUMNS} FROM destinations d
      WHERE d.tenant_id = ? AND d.name = ?`),
    selectById: sql.prepare(`SELECT ${DESTINATION_COLUMNS} FROM destinations d
      WHERE d.destination_id = ?`),
    selectOpen: sql.prepare(`SELECT ${DESTINATION_COLUMNS} FROM destinations d
      WHERE d.tenant_id = ? AND d.breaker_state <> 'CLOSED' ORDER BY d.name LIMIT ${ANY_LIMIT}`),
    lastRef: sql.prepare("SELECT ifnull(max(ref), 0) FROM tasks"),
    insert: sql.prepare(INSERT_DESTINATION),
    update: sql.prepare(UPDATE_DESTINATION),
    selectNode: sql.prepare("SELECT node_number FROM nodes WHERE node_id = ?"),
    insertNode: sql.prepare("INSERT INTO nodes (node_id, lease_until) VALUES (?, 0)"),
    addCount: sql.prepare(`INSERT INTO counts (destination_id, status, count) VALUES (?, ?, ?)
      ON CONFLICT DO UPDATE SET count = count + excluded.count`),
  };
}
