/** Tests of the lane heap against a plain list of lanes. */
import { seededRandom } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { type DestinationLane, DestinationRuntime } from "./destination-runtime.ts";
import { LaneHeap, TurnCounter } from "./lanes.ts";

const TENANTS = 4;
const STEPS = 200;

/** The lane heap, a list of the same lanes, and the tenants that are due and wait for a turn. */
class Model {
  readonly #random;
  readonly #heap = new LaneHeap<DestinationRuntime>(new TurnCounter());
  readonly #lanes: DestinationLane[];
  readonly #waiting = new Map<DestinationLane, number>();
  /** By tenant: the tenants that had a turn since it became due, or since its own last turn. */
  readonly #turnsOfOthers = new Map<string, Set<string>>();
  #now = 1000;

  constructor(seed: number) {
    this.#random = seededRandom(seed);
    this.#lanes = Array.from({ length: 12 }, (_, n) => {
      const key = { tenantId: `t${n % TENANTS}`, name: `d${n}` };
      return new DestinationRuntime(this.#random, key, 0, undefined);
    }).flatMap(({ lanes }) => [lanes.first, lanes.retry]);
  }

  #draw(max: number): number {
    return Math.floor(this.#random.next() * max);
  }

  #dueTenants(): Set<string> {
    const due = [...this.#waiting].filter(([, at]) => at <= this.#now);
    return new Set(due.map(([{ destination }]) => destination.tenantId));
  }

  step(): void {
    const lane = this.#lanes[this.#draw(this.#lanes.length)] as DestinationLane;
    const action = this.#draw(8);
    if (action < 3) {
      const at = this.#now - 20 + this.#draw(40);
      this.#heap.push(lane, at);
      this.#move(lane, at);
    } else if (action === 3) {
      // The scheduler withdraws a lane in this way.
      lane.stamp++;
      this.#move(lane, undefined);
    } else if (action === 4) this.#now += this.#draw(3);
    else this.#take();
    this.#check();
  }

  /** A tenant whose earliest lane is withdrawn or checked later has waited only since the next. */
  #move(lane: DestinationLane, at: number | undefined): void {
    const { tenantId } = lane.destination;
    const before = this.#earliestOf(tenantId);
    if (at === undefined) this.#waiting.delete(lane);
    else this.#waiting.set(lane, at);
    if (this.#earliestOf(tenantId) > before) this.#turnsOfOthers.delete(tenantId);
  }

  #earliestOf(tenantId: string): number {
    const own = [...this.#waiting].filter(([{ destination }]) => destination.tenantId === tenantId);
    return Math.min(...own.map(([, at]) => at));
  }

  #take(): void {
    const due = this.#dueTenants();
    const turn = this.#heap.take(this.#now);
    expect(turn === undefined).toBe(due.size === 0);
    if (turn === undefined) return;
    const { lane } = turn;
    expect(this.#waiting.get(lane)).toBeLessThanOrEqual(this.#now);
    this.#waiting.delete(lane);
    const { tenantId } = lane.destination;
    due.delete(tenantId);
    for (const other of due) {
      const turns = this.#turnsOfOthers.get(other) ?? new Set();
      expect(turns, `${tenantId} had two turns while ${other} waited`).not.toContain(tenantId);
      this.#turnsOfOthers.set(other, turns.add(tenantId));
    }
    this.#turnsOfOthers.delete(tenantId);
  }

  #check(): void {
    const due = this.#dueTenants();
    for (const tenant of this.#turnsOfOthers.keys()) {
      if (!due.has(tenant)) this.#turnsOfOthers.delete(tenant);
    }
    const earliest = Math.min(...this.#waiting.values());
    if (due.size > 0) expect(this.#heap.nextAt()).toBeLessThanOrEqual(this.#now);
    else expect(this.#heap.nextAt()).toBe(earliest);
  }
}

/** Lanes of one tenant at `count` destinations, all due at once. */
function dueLanes(count: number): readonly DestinationRuntime[] {
  return Array.from(
    { length: count },
    (_, n) =>
      new DestinationRuntime(seededRandom(n), { tenantId: "t", name: `d${n}` }, 0, undefined),
  );
}

/** Takes that many turns at `now`; every lane is due again after its turn. Returns the names. */
function turnsOf(
  heap: LaneHeap<DestinationRuntime>,
  count: number,
  now: number,
): readonly string[] {
  return Array.from({ length: count }, () => {
    const turn = heap.take(now);
    if (turn === undefined) throw new Error("no lane is due");
    heap.push(turn.lane, 0);
    return `${turn.lane.destination.name}/${turn.lane.lane}`;
  });
}

describe("the lane heap", () => {
  it("gives each destination of a tenant one turn, whether one or two of its lanes are due", () => {
    const heap = new LaneHeap<DestinationRuntime>(new TurnCounter());
    const [one, two] = dueLanes(2) as [DestinationRuntime, DestinationRuntime];
    for (const lane of [one.lanes.first, one.lanes.retry, two.lanes.first]) heap.push(lane, 0);
    const round = ["d0/first", "d1/first", "d0/retry", "d1/first"];
    for (const now of [1, 1, 2, 3]) expect(turnsOf(heap, 4, now)).toEqual(round);
  });

  it("returns an unused turn, so that the lane keeps its place", () => {
    const heap = new LaneHeap<DestinationRuntime>(new TurnCounter());
    for (const { lanes } of dueLanes(3)) heap.push(lanes.first, 0);
    const unused = [heap.take(1), heap.take(1)];
    for (const turn of unused.reverse()) if (turn !== undefined) heap.putBack(turn);
    expect(turnsOf(heap, 4, 1)).toEqual(["d0/first", "d1/first", "d2/first", "d0/first"]);
  });

  it("sets tenants without room aside until they are restored", () => {
    const heap = new LaneHeap<DestinationRuntime>(new TurnCounter());
    const [{ lanes }] = dueLanes(1) as [DestinationRuntime];
    heap.push(lanes.first, 0);
    expect(heap.take(1, () => false)).toBeUndefined();
    heap.push(lanes.retry, 0);
    expect([heap.nextAt(), heap.take(1)]).toEqual([Number.POSITIVE_INFINITY, undefined]);
    heap.restore();
    expect([heap.take(1)?.lane, heap.take(1)?.lane]).toEqual([lanes.first, lanes.retry]);
  });

  it("loses no lane, and gives no tenant two turns while another one is due", () => {
    for (let seed = 0; seed < 20; seed++) {
      const model = new Model(seed);
      for (let step = 0; step < STEPS; step++) model.step();
    }
  });
});
