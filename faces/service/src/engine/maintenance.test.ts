/**
 * Tests of retention in shared stores: its speed, which node removes what, and what a call repeats.
 * Tests the size of slices of background work.
 */
import type { virtualClock } from "@redrive/core";
import { describe, expect, it } from "vitest";
import type { Retention, Store } from "../model/store.ts";
import { wrapped } from "../model/wrapped.testing.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import { T0 } from "../stores/store.testing.ts";
import { fleet } from "./fleet.testing.ts";
import { SliceSize } from "./maintenance.ts";

const RETENTION_MS = 300_000;
const PARTITIONS = 64;
const ALL = Array.from({ length: PARTITIONS }, (_, partition) => partition);
/** Tasks a second that end: as many as the fastest store can drain. */
const PER_SECOND = 10_000;
/** A call of a store that is full of work: a round trip, and the time of each row. */
const CALL_MS = 20;
const ROW_MS = 0.02;
/** What ends in a round of maintenance, and until it is removed. */
const SLACK = PER_SECOND * 3;

/** Ended tasks as numbers: as many in each partition, at the same speed. */
class EndedTasks {
  readonly calls: (Retention & { readonly nodeId: string })[] = [];
  readonly hanging = new Set<string>();
  readonly #removed = new Array<number>(PARTITIONS).fill(0);
  readonly #clock: ReturnType<typeof virtualClock>;

  constructor(clock: ReturnType<typeof virtualClock>) {
    this.#clock = clock;
  }

  storeOf(nodeId: string, inner: Store): Store {
    return wrapped(inner, { sweep: (retention) => this.#sweep(nodeId, retention) });
  }

  /** Those of these partitions that are stored now. */
  stored(partitions: readonly number[]): number {
    const ended = this.#endedBefore(this.#clock.now());
    return partitions.reduce((sum, one) => sum + ended - (this.#removed[one] ?? 0), 0);
  }

  async #sweep(nodeId: string, retention: Retention): Promise<number> {
    this.calls.push({ ...retention, nodeId });
    if (this.hanging.has(nodeId)) return new Promise(() => {});
    const { endedBefore, limit, partitions = ALL } = retention;
    let removed = 0;
    for (const partition of partitions) {
      const known = this.#removed[partition] ?? 0;
      const count = Math.min(limit - removed, Math.max(0, this.#endedBefore(endedBefore) - known));
      this.#removed[partition] = known + count;
      removed += count;
    }
    await new Promise<void>((done) => this.#clock.alarm(CALL_MS + removed * ROW_MS, done));
    return removed;
  }

  #endedBefore(at: number): number {
    return Math.floor(((at - T0) * PER_SECOND) / 1000 / PARTITIONS);
  }
}

async function setup(names: readonly string[]) {
  const nodes = await fleet([], { retentionMs: RETENTION_MS });
  const ended = new EndedTasks(nodes.clock);
  for (const name of names) await nodes.boot(name, ended.storeOf(name, nodes.storeOf(name)));
  // The nodes learn of each other.
  await nodes.clock.advance(4000);
  /** The partitions of the last call of each node. */
  const partitionsOf = (nodeId: string) =>
    ended.calls.findLast((call) => call.nodeId === nodeId)?.partitions ?? [];
  return { ...nodes, ended, partitionsOf };
}

describe("retention", () => {
  it.each([[["node-1"]], [["node-1", "node-2", "node-3"]]])(
    "keeps up with an hour of the fastest drain: %s",
    async (names) => {
      const { clock, ended } = await setup(names);
      await clock.advance(RETENTION_MS);
      for (let minute = 0; minute < 60; minute++) {
        await clock.advance(60_000);
        const kept = (PER_SECOND * RETENTION_MS) / 1000;
        expect(ended.stored(ALL)).toBeLessThan(kept + SLACK);
      }
    },
    60_000,
  );

  it("makes one call at a time, with a pause that grows with its time", async () => {
    const { clock, boot, store } = await fleet([]);
    let calls = 0;
    const sweep: Store["sweep"] = async ({ limit }) => {
      calls++;
      await new Promise<void>((done) => clock.alarm(400, done));
      return limit;
    };
    await boot("node-1", wrapped(store, { sweep }));
    await clock.advance(100_000);
    expect(calls).toBeGreaterThan(215);
    expect(calls).toBeLessThan(228);
  });

  it("is divided: each node removes from the partitions that it leases", async () => {
    const { partitionsOf } = await setup(["node-1", "node-2"]);
    const [one, two] = [partitionsOf("node-1"), partitionsOf("node-2")];
    expect(Math.min(one.length, two.length)).toBeGreaterThan(0);
    expect([...one, ...two].sort((a, b) => a - b)).toEqual(ALL);
  });

  it("does not wait for the node of the first partition", async () => {
    const { clock, ended, partitionsOf } = await setup(["node-1", "node-2"]);
    const [slow, other] = partitionsOf("node-1").includes(0)
      ? ["node-1", "node-2"]
      : ["node-2", "node-1"];
    const own = partitionsOf(other);
    ended.hanging.add(slow);
    await clock.advance(RETENTION_MS + 600_000);
    const kept = (PER_SECOND * RETENTION_MS * own.length) / PARTITIONS / 1000;
    expect(ended.stored(own)).toBeLessThan(kept + SLACK);
  });

  it("continues in the partitions of a node that is gone", async () => {
    const { clock, ended, kill, partitionsOf } = await setup(["node-1", "node-2"]);
    kill("node-1");
    ended.hanging.add("node-1");
    await clock.advance(RETENTION_MS + 60_000);
    expect(partitionsOf("node-2")).toEqual(ALL);
    expect(ended.stored(ALL)).toBeLessThan((PER_SECOND * RETENTION_MS) / 1000 + SLACK);
  });

  it("looks everywhere once a minute, and otherwise continues", async () => {
    const { clock, ended } = await setup(["node-1"]);
    await clock.advance(600_000);
    const fresh = ended.calls.filter(({ isContinued }) => isContinued !== true);
    expect(ended.calls[0]?.isContinued).toBe(false);
    expect(fresh.length).toBeGreaterThanOrEqual(9);
    expect(fresh.length).toBeLessThanOrEqual(11);
  });

  it("gives an exclusive store slices that end with their time", async () => {
    const calls: (readonly [number, boolean | undefined])[] = [];
    const { clock, boot } = await fleet([]);
    const sweep: Store["sweep"] = async ({ limit, isOver }) => {
      calls.push([limit, isOver?.()]);
      return 0;
    };
    await boot("node-1", wrapped<Store>(memoryStore(), { sweep }));
    await clock.advance(10_000);
    expect(calls.length).toBeGreaterThan(2);
    expect(calls.every(([limit, isOver]) => limit === 10 && isOver === false)).toBe(true);
  });
});

/** The sizes of the first slices, if each row takes `msPerRow`. */
function sizes(msPerRow: number, slices: number, size = new SliceSize()): readonly number[] {
  return Array.from({ length: slices }, () => {
    const { rows } = size;
    size.record(rows, rows * msPerRow);
    return rows;
  });
}

describe("the size of a slice", () => {
  it("grows to what fits into a millisecond", () => {
    expect(sizes(0.025, 5)).toEqual([10, 20, 40, 40, 40]);
  });

  it("has a limit, for a store that does not block", () => {
    expect(sizes(0, 7)).toEqual([10, 20, 40, 80, 160, 200, 200]);
  });

  it("shrinks at once, and not to nothing", () => {
    const size = new SliceSize();
    sizes(0, 10, size);
    size.record(200, 20);
    expect(size.rows).toBe(10);
    size.record(10, 20);
    expect(size.rows).toBe(10);
  });
});
