/**
 * Destination table: destinations, node numbers and task counts. This process is the only writer,
 * so everything that was read is cached: a claim compares versions without reading the disk.
 */

import type { DestinationWrite } from "../../../model/batch.ts";
import { blankDestination, type DestinationRow } from "../../../model/destination-row.ts";
import type { TaskStatus } from "../../../model/task.ts";
import type { Sql } from "../file/sql.ts";
import { type Cell, columnList, placeholders, positionsOf, statusNumber } from "../rows/codec.ts";

export interface StoredDestination {
  readonly id: number;
  row: DestinationRow;
}

/** Changes of counts, by destination id times 8 plus status. */
type CountChanges = Map<number, number>;

export class DestinationTable {
  readonly #statements: ReturnType<typeof statementsOf>;
  readonly #byName = new Map<string, StoredDestination>();
  readonly #byId = new Map<number, StoredDestination>();
  readonly #nodes = new Map<string, number>();
  readonly #steps: CountChanges = new Map();

  constructor(sql: Sql) {
    this.#statements = statementsOf(sql);
    this.load();
  }

  /** Reads everything again: after a rollback the cache may hold changes that were undone. */
  load(): void {
    this.#byName.clear();
    this.#byId.clear();
    this.#nodes.clear();
    this.#steps.clear();
    for (const cells of this.#statements.selectAll.all() as unknown as readonly Cell[][]) {
      this.#keep(cells[DESTINATION_ID] as number, destinationOf(cells));
    }
  }

  #keep(id: number, row: DestinationRow): StoredDestination {
    const stored = { id, row };
    this.#byName.set(`${row.tenantId}\n${row.name}`, stored);
    this.#byId.set(id, stored);
    return stored;
  }

  /** The destination; a new one is inserted. */
  getOrInsert(tenantId: string, name: string): StoredDestination {
    const known = this.#byName.get(`${tenantId}\n${name}`);
    if (known !== undefined) return known;
    const row = blankDestination(tenantId, name);
    const { lastInsertRowid } = this.#statements.insert.run(...destinationCells(row));
    return this.#keep(Number(lastInsertRowid), row);
  }

  byId(id: number): StoredDestination {
    const stored = this.#byId.get(id);
    if (stored === undefined)
      throw new Error(`a task names destination ${id}, which does not exist`);
    return stored;
  }

  /** Null if no row was written for it. */
  row(tenantId: string, name: string): DestinationRow | null {
    const row = this.#byName.get(`${tenantId}\n${name}`)?.row;
    return row === undefined || row.version === 0 ? null : row;
  }

  /** Null: written. Otherwise the current row, and the destination is added to `refused`. */
  write({ row }: DestinationWrite, refused: Set<StoredDestination>): DestinationRow | null {
    const stored = this.getOrInsert(row.tenantId, row.name);
    if (stored.row.version !== row.version - 1) {
      refused.add(stored);
      return stored.row;
    }
    this.#statements.update.run(...destinationState(row), stored.id);
    stored.row = row;
    return null;
  }

  list(tenantId: string): readonly DestinationRow[] {
    const rows = [...this.#byId.values()].map(({ row }) => row);
    return rows.filter((row) => row.tenantId === tenantId && row.version > 0);
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

  flush(): void {
    for (const [key, by] of this.#steps) {
      if (by !== 0) this.#statements.addCount.run(Math.floor(key / 8), key % 8, by);
    }
    this.#steps.clear();
  }
}

function statementsOf(sql: Sql) {
  return {
    selectAll: sql.prepare(SELECT_DESTINATIONS),
    insert: sql.prepare(INSERT_DESTINATION),
    update: sql.prepare(UPDATE_DESTINATION),
    selectNode: sql.prepare("SELECT node_number FROM nodes WHERE node_id = ?"),
    insertNode: sql.prepare("INSERT INTO nodes (node_id, lease_until) VALUES (?, 0)"),
    addCount: sql.prepare(`INSERT INTO counts (destination_id, status, count) VALUES (?, ?, ?)
      ON CONFLICT DO UPDATE SET count = count + excluded.count`),
  };
}

/** The columns that identify a destination. They never change. */
const DESTINATION_NAME = { tenantId: "tenant_id", name: "name" } as const;

const DESTINATION_STATE = {
  version: "version",
  document: "document",
  pausedAt: "paused_at",
  gateUntil: "gate_until",
  breakerState: "breaker_state",
  openUntil: "open_until",
  openCount: "open_count",
} as const;

const DESTINATION = { ...DESTINATION_NAME, ...DESTINATION_STATE } as const;
const DESTINATION_FIELDS = Object.keys(DESTINATION) as readonly (keyof typeof DESTINATION)[];
const STATE_FIELDS = Object.keys(DESTINATION_STATE) as readonly (keyof typeof DESTINATION_STATE)[];

const SELECT_DESTINATIONS = `SELECT ${columnList(DESTINATION)}, destination_id
  FROM destinations`;

/** The position of `destination_id` in a row of `SELECT_DESTINATIONS`. */
const DESTINATION_ID = DESTINATION_FIELDS.length;

const INSERT_DESTINATION = `INSERT INTO destinations (${columnList(DESTINATION)})
  VALUES (${placeholders(DESTINATION)})`;

/** Takes the cells of `destinationState`, then the id. */
const UPDATE_DESTINATION = `UPDATE destinations
  SET ${STATE_FIELDS.map((field) => `${DESTINATION_STATE[field]} = ?`).join(", ")}
  WHERE destination_id = ?`;

const destinationPositions = positionsOf(DESTINATION);

function destinationOf(cells: readonly Cell[]): DestinationRow {
  const at = destinationPositions;
  return {
    tenantId: cells[at.tenantId] as string,
    name: cells[at.name] as string,
    version: cells[at.version] as number,
    document: cells[at.document] as string | null,
    pausedAt: cells[at.pausedAt] as number | null,
    gateUntil: cells[at.gateUntil] as number,
    breakerState: cells[at.breakerState] as DestinationRow["breakerState"],
    openUntil: cells[at.openUntil] as number,
    openCount: cells[at.openCount] as number,
  };
}

/** The cells of a new row of `destinations`. */
function destinationCells(row: DestinationRow): Cell[] {
  return DESTINATION_FIELDS.map((field) => row[field]);
}

/** The cells that an update changes. */
function destinationState(row: DestinationRow): Cell[] {
  return STATE_FIELDS.map((field) => row[field]);
}
