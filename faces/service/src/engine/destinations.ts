/**
 * Destinations: the destinations that this node knows. They are created on first use, and dropped
 * when they are idle and a new one would behave the same, because callers may name any number.
 */
import type { Random, SharedBudget } from "@redrive/core";
import type { DestinationRow } from "../model/destination-row.ts";
import type { EngineTime } from "../time/engine-time.ts";
import { DestinationRuntime } from "./destination-runtime.ts";
import type { FleetView } from "./fleet-state.ts";
import { LateTasks } from "./late-tasks.ts";

/** Longer than every window of the default guards, so that their state has aged out. */
export const IDLE_MS = 600_000;

/** How many destinations one check examines: less than a millisecond. */
const MAX_CHECKED = 1000;

/** Reads the saved guard state of a destination; null if there is none. */
export type ReadGuards = (tenantId: string, name: string) => Promise<string | null>;

interface DestinationsOptions {
  /** The retry budget of the whole service. Default: none. */
  readonly serviceBudget?: SharedBudget | undefined;
  /** Default: no guard state is restored. */
  readonly readGuards?: ReadGuards | undefined;
  /** The other nodes that share a destination. Default: there are none. */
  readonly fleet?: FleetView<DestinationRuntime> | undefined;
}

export class Destinations {
  readonly #time: EngineTime;
  readonly #random: Random;
  readonly #options: DestinationsOptions;
  readonly #byKey = new Map<string, DestinationRuntime>();
  /** Where the next check for idle destinations continues. */
  #unchecked: Iterator<DestinationRuntime> = [][Symbol.iterator]();

  readonly #late = new LateTasks();

  constructor(time: EngineTime, random: Random, options: DestinationsOptions = {}) {
    this.#time = time;
    this.#random = random;
    this.#options = options;
  }

  /**
   * When the oldest task was due that waits although no pause, gate or open breaker holds it; Infinity:
   * none waits. It is found in rounds, so it may be a few seconds old.
   */
  get oldestDueAt(): number {
    return this.#late.oldestDueAt;
  }

  get size(): number {
    return this.#byKey.size;
  }

  values(): Iterable<DestinationRuntime> {
    return this.#byKey.values();
  }

  /** The destination, if this node knows it. */
  find(tenantId: string, name: string): DestinationRuntime | undefined {
    return this.#byKey.get(keyOf(tenantId, name));
  }

  /**
   * A caller that keeps it across a wait increments `users` meanwhile. `guards` is the saved guard
   * state, null if there is none. By default it is read, which ends before the next commit begins;
   * a caller that uses the guards earlier calls `load`.
   */
  getOrCreate(tenantId: string, name: string, guards?: string | null): DestinationRuntime {
    const known = this.find(tenantId, name);
    if (known !== undefined) return known;
    const created = this.#create(tenantId, name);
    this.#byKey.set(keyOf(tenantId, name), created);
    if (guards === undefined) this.#restore(created);
    else if (guards !== null) created.restoreGuards(guards);
    return created;
  }

  /** Like `getOrCreate`, but its guards are restored: for callers that use them at once. */
  async load(tenantId: string, name: string): Promise<DestinationRuntime> {
    const { readGuards } = this.#options;
    if (this.find(tenantId, name) !== undefined || readGuards === undefined) {
      return this.getOrCreate(tenantId, name);
    }
    const guards = await readGuards(tenantId, name).catch(() => null);
    return this.getOrCreate(tenantId, name, guards);
  }

  /** A destination that this node does not know, as a new task would find it. It is not kept. */
  preview(row: DestinationRow, guards: string | null): DestinationRuntime {
    const created = this.#create(row.tenantId, row.name);
    if (guards !== null) created.restoreGuards(guards);
    if (row.version > 0) created.adopt(row, this.#time.now());
    return created;
  }

  #create(tenantId: string, name: string): DestinationRuntime {
    const random = this.#random.fork(`destination/${keyOf(tenantId, name)}`);
    const { serviceBudget, fleet } = this.#options;
    const key = { tenantId, name };
    return new DestinationRuntime(random, key, this.#time.now(), serviceBudget, fleet);
  }

  /** If the state cannot be read, the guards start fresh. */
  #restore(destination: DestinationRuntime): void {
    const { tenantId, name } = destination;
    this.#options.readGuards?.(tenantId, name).then(
      (text) => {
        if (text !== null) destination.restoreGuards(text);
      },
      () => {},
    );
  }

  /**
   * Examines some of the destinations, and continues there the next time. Returns those that it
   * dropped.
   */
  dropIdle(): readonly DestinationRuntime[] {
    const now = this.#time.now();
    const dropped: DestinationRuntime[] = [];
    for (let checked = 0; checked < MAX_CHECKED; checked++) {
      const { value: destination, done } = this.#unchecked.next();
      if (done) {
        this.#unchecked = this.#byKey.values();
        this.#late.endRound();
        return dropped;
      }
      this.#late.record(destination, now);
      if (!destination.isIdleSince(now - IDLE_MS)) continue;
      this.#byKey.delete(keyOf(destination.tenantId, destination.name));
      dropped.push(destination);
    }
    return dropped;
  }
}

function keyOf(tenantId: string, name: string): string {
  return `${tenantId}\n${name}`;
}
