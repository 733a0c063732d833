/**
 * Destination changes: writes a user's change to the row of a destination, based on the stored
 * version. If another writer is first, the change is repeated on top of the new row.
 */
import { EMPTY_BATCH } from "../model/batch.ts";
import type { DestinationRow } from "../model/destination-row.ts";
import { serviceError } from "../model/errors.ts";
import type { Store } from "../model/store.ts";
import type { EngineTime } from "../time/engine-time.ts";
import type { TaskQueue } from "./commit/commit-queues.ts";
import type { Destinations } from "./destination/destinations.ts";
import type { DocumentReports } from "./events/document-reports.ts";
import type { EngineEvents } from "./events/engine-events.ts";
import type { NodeState } from "./node/node-state.ts";
import type { Schedule } from "./schedule/scheduler.ts";

export interface DestinationChangesParts {
  readonly store: Pick<Store, "getDestination" | "commit">;
  readonly time: EngineTime;
  readonly node: NodeState;
  readonly schedule: Schedule;
  readonly queue: TaskQueue;
  readonly events: EngineEvents;
  readonly reports: DocumentReports;
  readonly destinations: Destinations;
}

/** The columns that users may change: the pause and the document. */
export type ChangedColumns = Partial<Pick<DestinationRow, "pausedAt" | "document">>;

/** The new columns, or a function that computes them from the stored row. */
export type DestinationChange = ChangedColumns | ((row: DestinationRow) => ChangedColumns);

/** Nodes write a row when its circuit or gate changes. Losing this often in a row is not chance. */
const MAX_TRIES = 10;

export class DestinationChanges {
  readonly #parts: DestinationChangesParts;

  constructor(parts: DestinationChangesParts) {
    this.#parts = parts;
  }

  /** Throws `DESTINATION_BUSY`, without a change, if another writer was first each time. */
  async make(tenantId: string, name: string, change: DestinationChange): Promise<DestinationRow> {
    for (let tries = 1; tries <= MAX_TRIES; tries++) {
      const row = await this.#try(tenantId, name, change);
      if (row === null) continue;
      const { events, time } = this.#parts;
      events.emit(time.now(), { type: "destination.changed", tenantId, destination: name });
      return row;
    }
    const text = `another writer changed destination ${name} before each of ${MAX_TRIES} tries`;
    throw serviceError("DESTINATION_BUSY", `${text}; try again`);
  }

  /** Null: another writer was first. */
  async #try(
    tenantId: string,
    name: string,
    change: DestinationChange,
  ): Promise<DestinationRow | null> {
    const { store, time, node, schedule, queue, reports, destinations } = this.#parts;
    const stored = await store.getDestination(tenantId, name);
    const before = await destinations.load(tenantId, name);
    if (stored !== null) before.adopt(stored, time.now());
    const columns = typeof change === "function" ? change(before.row) : change;
    const row = { ...before.row, ...columns, version: before.row.version + 1 };
    const batch = { now: time.now(), nodeId: node.nodeId, ...EMPTY_BATCH };
    const result = await store.commit({ ...batch, destinations: [{ row }] });
    const winner = result.destinations[0] ?? null;
    // Looked up again, because it may have been dropped as idle meanwhile.
    const destination = destinations.getOrCreate(tenantId, name);
    const now = time.now();
    destination.adopt(winner ?? row, now);
    reports.record(destination.documentName, destination.reading);
    schedule.unblock(destination, now);
    queue.request();
    return winner === null ? row : null;
  }
}
