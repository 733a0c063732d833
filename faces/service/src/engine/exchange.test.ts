/** Tests of one node's exchange: what it reports, and what it does with the response. */
import { describe, expect, it } from "vitest";
import type { NodeReport, Renewal } from "../model/node-report.ts";
import type { DueQuery, Store } from "../model/store.ts";
import { wrapped } from "../model/wrapped.testing.ts";
import { DESTINATION, TENANT } from "../stores/store.testing.ts";
import type { Engine } from "./engine.ts";
import { fleet } from "./fleet.testing.ts";

const BOTH = ["node-1", "node-2"];

/** A node whose responses a test can change. */
async function node(document: object = {}) {
  const { clock, boot, enqueue, store, storeOf } = await fleet([], { document });
  const reports: NodeReport[] = [];
  const test: { change: (renewal: Renewal, report: NodeReport) => Partial<Renewal> } = {
    change: () => ({}),
  };
  /** What the node may use when it sends each report. */
  const slotsUsed: number[] = [];
  let booted: Engine | undefined;
  const inner = storeOf("node-1");
  const reads: DueQuery[] = [];
  const followed: (readonly number[])[] = [];
  let isStalled = false;
  const engine = await boot(
    "node-1",
    wrapped<Store>(inner, {
      dueLanes: (query) => {
        reads.push(query);
        return isStalled ? new Promise(() => {}) : inner.dueLanes(query);
      },
      onWakeUp: (listener) => {
        const wakeUps = inner.onWakeUp(listener);
        const follow = (partitions: readonly number[]) => {
          followed.push(partitions);
          wakeUps.follow(partitions);
        };
        return { ...wakeUps, follow };
      },
      renew: async (report) => {
        reports.push(report);
        const share = booted?.destination(TENANT, DESTINATION).admission.share;
        slotsUsed.push(share?.slots ?? Number.POSITIVE_INFINITY);
        const renewal = await inner.renew(report);
        return { ...renewal, ...test.change(renewal, report) };
      },
    }),
  );
  booted = engine;
  await clock.advance(1500);
  const last = () => reports.at(-1) as NodeReport;
  /** Another node has changed something, so the store asks for an exchange. */
  const exchange = async () => {
    await store.retire("nobody");
    await clock.advance(50);
  };
  /** Reads of what is due do not end any more. */
  const stall = () => {
    isStalled = true;
  };
  const asked = { reports, reads, followed, slotsUsed, last };
  return { clock, engine, enqueue, ...asked, test, exchange, boot, stall };
}

describe("an exchange", () => {
  it("reads what is due in partitions that it shows to be gained, and waits for nothing but the store", async () => {
    const { test, exchange, reads, reports, clock, stall } = await node();
    test.change = () => ({ nodes: BOTH });
    await exchange();
    stall();
    test.change = () => ({});
    const before = reads.length;
    await exchange();
    await exchange();
    const first = reads[before];
    expect(first?.from).toBe(Number.NEGATIVE_INFINITY);
    expect(first?.partitions).toHaveLength(32);
    const renewed = reports.length;
    await clock.advance(4500);
    expect(reports.length - renewed).toBeGreaterThanOrEqual(4);
    // One read at a time.
    expect(reads.length).toBe(before + 1);
  });

  it("follows the wake-ups of its partitions only", async () => {
    const { test, exchange, followed } = await node();
    test.change = () => ({ nodes: BOTH });
    await exchange();
    expect(followed.map((partitions) => partitions.length)).toEqual([64, 32]);
  });

  it("drops the tokens that were reserved before the lease ended", async () => {
    const { clock, engine, test, exchange, enqueue, boot } = await node({
      rate: { perSecond: 10, burst: 1 },
      retryBudget: false,
    });
    await boot("node-2");
    for (let n = 0; n < 40; n++) await enqueue(engine);
    await clock.advance(1000);
    const destination = engine.destination(TENANT, DESTINATION);
    await exchange();
    const kept = destination.reserved.filter(({ used, count }) => used < count);
    expect(kept.length).toBeGreaterThan(0);
    test.change = () => ({ wasLapsed: true });
    await exchange();
    expect(destination.reserved.filter((tokens) => kept.includes(tokens))).toEqual([]);
  });

  it("gives a share back in the next one if the store fails", async () => {
    const { clock, engine, test, enqueue, reports, boot } = await node({
      concurrency: { max: 10, algorithm: "FIXED" },
    });
    await boot("node-2");
    await enqueue(engine);
    const returned = () =>
      reports.filter(({ destinations }) => destinations.some(({ demand }) => demand === 0)).length;
    test.change = () => {
      if (returned() === 1) throw new Error("the connection was lost");
      return {};
    };
    await clock.advance(60_000);
    expect(returned()).toBe(2);
  });

  it("asks for no less than the node uses, because the store may give the rest to others", async () => {
    const document = { concurrency: { max: 8, algorithm: "FIXED" }, retryBudget: false };
    const { clock, engine, enqueue, reports, slotsUsed, boot } = await node(document);
    await boot("node-2");
    for (let n = 0; n < 60; n++) await enqueue(engine);
    await clock.advance(30_000);
    const asked = reports.map(({ takesAll, destinations: [one] }) =>
      takesAll ? Number.POSITIVE_INFINITY : one?.slots?.wanted,
    );
    const both = slotsUsed.map((slots, at) => [slots, asked[at] ?? slots] as const);
    expect(both.some(([, wanted]) => wanted === 7)).toBe(true);
    expect(both.filter(([slots, wanted]) => slots > wanted)).toEqual([]);
    // Before it says that it shares, it stops using whole limits.
    const shared = slotsUsed.filter((_, at) => reports[at]?.takesAll === false);
    expect(Math.max(...shared)).toBeLessThanOrEqual(8);
  });

  it("follows at once when the node is not alone any more", async () => {
    const { test, exchange, reports, last } = await node();
    expect(last().takesAll).toBe(true);
    test.change = () => ({ nodes: BOTH });
    const before = reports.length;
    await exchange();
    const next = reports.slice(before, before + 2);
    expect(next.map(({ takesAll }) => takesAll)).toEqual([true, false]);
  });
});

describe("a stopping node", () => {
  it("retires after its last report, which would bring its lease back", async () => {
    const { clock, boot, storeOf } = await fleet([], {});
    const inner = storeOf("node-1");
    const order: string[] = [];
    let isSlow = false;
    let release: (() => void) | undefined;
    const store = wrapped<Store>(inner, {
      renew: async (report) => {
        const renewal = await inner.renew(report);
        if (!isSlow) return renewal;
        order.push("reports");
        await new Promise<void>((resolve) => (release = resolve));
        order.push("reported");
        return renewal;
      },
      retire: (nodeId) => {
        order.push("retires");
        return inner.retire(nodeId);
      },
    });
    const engine = await boot("node-1", store);
    isSlow = true;
    await clock.advance(1500);
    const stopped = engine.stop();
    await clock.advance(500);
    expect(order).toEqual(["reports"]);
    release?.();
    await clock.advance(500);
    await stopped;
    expect(order).toEqual(["reports", "reported", "retires"]);
  });
});
