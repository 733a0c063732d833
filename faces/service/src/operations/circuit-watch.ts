/** Circuit watch: finds out whether a circuit opens while a redrive sends to its destination. */
import type { Clock } from "@redrive/core";
import type { DestinationRow } from "../model/destination-row.ts";

/** Circuits are read at most this often. */
const CHECK_MS = 100;

export class CircuitWatch {
  readonly #clock: Clock;
  readonly #read: () => Promise<readonly DestinationRow[]>;
  readonly #destinations = new Set<string>();
  /** The circuits that were not closed at the last check. */
  #known: ReadonlyMap<string, DestinationRow> | undefined;
  #checkedMs = Number.NEGATIVE_INFINITY;

  /** `read` returns the rows whose circuit is not closed. */
  constructor(clock: Clock, read: () => Promise<readonly DestinationRow[]>) {
    this.#clock = clock;
    this.#read = read;
  }

  /**
   * Adds a destination to those that are watched. Returns the reason to pause if the circuit of one of
   * them has opened.
   */
  async check(destination: string): Promise<string | undefined> {
    this.#destinations.add(destination);
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#checkedMs < CHECK_MS) return undefined;
    this.#checkedMs = nowMs;
    const rows = await this.#read();
    const before = this.#known;
    this.#known = new Map(rows.map((row) => [row.name, row]));
    if (before === undefined) return undefined;
    const opened = rows.find(
      (row) => this.#destinations.has(row.name) && hasOpened(before.get(row.name), row),
    );
    return (
      opened &&
      `the circuit of ${opened.name} opened: resume the redrive once the destination has recovered`
    );
  }
}

/** A circuit that was already open holds tasks by itself. */
function hasOpened(before: DestinationRow | undefined, after: DestinationRow): boolean {
  if (after.breakerState === "CLOSED") return false;
  return (
    (before?.breakerState ?? "CLOSED") === "CLOSED" || after.openCount > (before?.openCount ?? 0)
  );
}
