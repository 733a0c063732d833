/**
 * Places: destinations, nodes and counts by their numbers. This process is the only writer, so
 * what has been read once is kept: a claim compares versions without asking the disk.
 */

import type { DestinationWrite } from "../../model/batch.ts";
import { blankDestination, type DestinationRow } from "../../model/destination-row.ts";
import type { TaskStatus } from "../../model/task.ts";
import {
  type Cell,
  DESTINATION_COLUMNS,
  destinationCells,
  destinationOf,
  statusNumber,
} from "./codec.ts";
import type { Sql } from "./sql.ts";

export interface Place {
  readonly id: number;
  row: DestinationRow;
}

/** How counts have changed: by destination number times 8 plus status. */
type Steps = Map<number, number>;

export class Places {
  readonly #statements: ReturnType<typeof statementsOf>;
  readonly #byName = new Map<string, Place>();
  readonly #byId = new Map<number, Place>();
  readonly #nodes = new Map<string, number>();
  readonly #steps: Steps = new Map();

  constructor(sql: Sql) {
    this.#statements = statementsOf(sql);
    this.load();
  }

  /** Reads everything anew: after a rollback, what was kept may never have happened. */
  load(): void {
    this.#byName.clear();
    this.#byId.clear();
    this.#nodes.clear();
    this.#steps.clear();
    for (const cells of this.#statements.selectAll.all() as unknown as readonly Cell[][]) {
      this.#keep(cells[9] as number, destinationOf(cells));
    }
  }

  #keep(id: number, row: DestinationRow): Place {
    const place = { id, row };
    this.#byName.set(`${row.tenantId}\n${row.name}`, place);
    this.#byId.set(id, place);
    return place;
  }

  /** The destination, numbered now if it is new. */
  of(tenantId: string, name: string): Place {
    const known = this.#byName.get(`${tenantId}\n${name}`);
    if (known !== undefined) return known;
    const row = blankDestination(tenantId, name);
    const { lastInsertRowid } = this.#statements.insert.run(...destinationCells(row));
    return this.#keep(Number(lastInsertRowid), row);
  }

  byId(id: number): Place {
    const place = this.#byId.get(id);
    if (place === undefined) throw new Error(`a task names destination ${id}, which is not there`);
    return place;
  }

  /** Null if nobody has written a row for it. */
  row(tenantId: string, name: string): DestinationRow | null {
    const row = this.#byName.get(`${tenantId}\n${name}`)?.row;
    return row === undefined || row.version === 0 ? null : row;
  }

  /** Null: written. Otherwise the row that stands; the place is then among the `refused`. */
  write({ row }: DestinationWrite, refused: Set<Place>): DestinationRow | null {
    const place = this.of(row.tenantId, row.name);
    if (place.row.version !== row.version - 1) {
      refused.add(place);
      return place.row;
    }
    this.#statements.update.run(...destinationCells(row).slice(2), place.id);
    place.row = row;
    return null;
  }

  list(tenantId: string): readonly DestinationRow[] {
    const rows = [...this.#byId.values()].map(({ row }) => row);
    return rows.filter((row) => row.tenantId === tenantId && row.version > 0);
  }

  /** The number of a node, given now if it is new. */
  nodeNumber(nodeId: string): number {
    const known = this.#nodes.get(nodeId);
    if (known !== undefined) return known;
    const { selectNode, insertNode } = this.#statements;
    const row = selectNode.get(nodeId) as unknown as readonly number[] | undefined;
    const number = row?.[0] ?? Number(insertNode.run(nodeId).lastInsertRowid);
    this.#nodes.set(nodeId, number);
    return number;
  }

  /** Moves a task between states in the counts; written by `flush`, within the transaction. */
  tally(place: Place, from: TaskStatus | null, to: TaskStatus | null): void {
    if (from !== null) this.#step(place, from, -1);
    if (to !== null) this.#step(place, to, 1);
  }

  #step({ id }: Place, status: TaskStatus, by: number): void {
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
    selectAll: sql.prepare(`SELECT ${DESTINATION_COLUMNS}, destination_id FROM destinations`),
    insert: sql.prepare(
      `INSERT INTO destinations (${DESTINATION_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)`,
    ),
    update: sql.prepare(`UPDATE destinations SET version = ?, document = ?, paused_at = ?,
      gate_until = ?, breaker_state = ?, open_until = ?, open_count = ? WHERE destination_id = ?`),
    selectNode: sql.prepare("SELECT node_number FROM nodes WHERE node_id = ?"),
    insertNode: sql.prepare("INSERT INTO nodes (node_id, lease_until) VALUES (?, 0)"),
    addCount: sql.prepare(`INSERT INTO counts (destination_id, status, count) VALUES (?, ?, ?)
      ON CONFLICT DO UPDATE SET count = count + excluded.count`),
  };
}
