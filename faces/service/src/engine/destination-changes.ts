/**
 * Destination changes: what people may change of a destination, written to its row under the version
 * that stands. Whoever else writes that row first wins, and the change is tried again on top.
 */
import { serviceError } from "../model/errors.ts";
import type { Store } from "../model/store.ts";
import type { DestinationRow } from "../model/destination-row.ts";
import { EMPTY_BATCH } from "../model/batch.ts";
import type { CommitLoop } from "./commit/commit-loop.ts";
import type { EngineEvents } from "./events/engine-events.ts";
import type { EngineTime } from "./node/engine-time.ts";
import type { FindDestination } from "./run/follow-up-tasks.ts";
import type { Scheduler } from "./schedule/scheduler.ts";

export interface DestinationChangesParts {
  readonly store: Pick<Store, "getDestination" | "commit">;
  readonly time: EngineTime;
  readonly nodeId: string;
  readonly scheduler: Scheduler;
  readonly turn: CommitLoop;
  readonly events: EngineEvents;
  readonly destinationOf: FindDestination;
}

/** Its pause and its document. */
export type DestinationChange = Partial<Pick<DestinationRow, "pausedAt" | "document">>;

/** Others write a row when a circuit or a gate moves: to lose so often in a row is no bad luck. */
const MAX_TRIES = 10;

export class DestinationChanges {
  readonly #parts: DestinationChangesParts;

  constructor(parts: DestinationChangesParts) {
    this.#parts = parts;
  }

  /** Throws `DESTINATION_BUSY`, with nothing changed, if others were first each time. */
  async make(tenantId: string, name: string, change: DestinationChange): Promise<DestinationRow> {
    for (let tries = 1; tries <= MAX_TRIES; tries++) {
      const row = await this.#try(tenantId, name, change);
      if (row === null) continue;
      const { events, time } = this.#parts;
      events.emit(time.now(), { type: "destination.changed", tenantId, destination: name });
      return row;
    }
    const text = `destination ${name} was changed by others each of ${MAX_TRIES} times`;
    throw serviceError("DESTINATION_BUSY", `${text}; try again`);
  }

  /** Null: somebody else was first. */
  async #try(
    tenantId: string,
    name: string,
    change: DestinationChange,
  ): Promise<DestinationRow | null> {
    const { store, time, nodeId, scheduler, turn, destinationOf } = this.#parts;
    const stored = await store.getDestination(tenantId, name);
    const before = destinationOf(tenantId, name);
    if (stored !== null) before.adopt(stored, time.now());
    const row = { ...before.row, ...change, version: before.row.version + 1 };
    const batch = { now: time.now(), nodeId, ...EMPTY_BATCH };
    const { destinations } = await store.commit({ ...batch, destinations: [{ row }] });
    const standing = destinations[0] ?? null;
    // Looked for anew: it may have been dropped for idling meanwhile.
    const destination = destinationOf(tenantId, name);
    const now = time.now();
    destination.adopt(standing ?? row, now);
    scheduler.unblock(destination, now);
    turn.request();
    return standing === null ? row : null;
  }
}
