/** Tests of an engine whose machine sleeps or whose clock is set, and of a store that is ahead. */
import { type Outcome, seededRandom } from "@redrive/core";
import { describe, expect, it } from "vitest";
import { notStarted } from "../deliver/attempt.ts";
import type { NodeReport } from "../model/node-report.ts";
import type { Store } from "../model/store.ts";
import type { NewTask } from "../model/task.ts";
import { wrapped } from "../model/wrapped.testing.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import { pinnedTask, report, T0, TENANT } from "../stores/store.testing.ts";
import { steppingClock } from "../time/stepping-clock.testing.ts";
import { Engine, type EngineOptions } from "./engine.ts";
import type { EngineEvent } from "./events.ts";

const HOUR_MS = 3_600_000;
const YEAR_MS = 365 * 24 * HOUR_MS;

type TestOptions = Partial<EngineOptions> & { readonly clock?: ReturnType<typeof steppingClock> };

async function setup(options: TestOptions = {}, store: Store = memoryStore()) {
  const { clock = steppingClock(T0) } = options;
  const policy = { tenantId: TENANT, policyId: "background", version: 1, createdAt: T0 };
  await store.addPolicy({ ...policy, document: JSON.stringify({ totalBudgetMs: 86_400_000 }) });
  const sent: { readonly task: NewTask; readonly wallAt: number }[] = [];
  const aborted: string[] = [];
  const events: EngineEvent[] = [];
  const engine = await Engine.open({
    clock,
    random: seededRandom("clock"),
    store,
    nodeId: "node-1",
    deliver: (task, { signal }, done) => {
      sent.push({ task, wallAt: clock.now() });
      const outcome: Outcome = { kind: "success", status: 200 };
      clock.alarm(300_000, () => done({ ...notStarted(outcome, null), status: 200 }));
      signal.addEventListener("abort", () => {
        aborted.push(task.taskId);
        done(notStarted({ kind: "aborted" }, null));
      });
    },
    ...options,
  });
  engine.events.listen((event) => events.push({ ...event }));
  await engine.start();
  const enqueue = async (scheduledAt: number) => {
    const task = pinnedTask({ createdAt: engine.now(), scheduledAt });
    const created = new Promise((done, failed) => engine.create(task, null, done, failed));
    await clock.advance(1);
    await created;
    return task;
  };
  const clockEvents = () => events.filter(({ type }) => type.startsWith("clock."));
  return { clock, store, engine, sent, aborted, clockEvents, enqueue };
}

describe("an engine whose machine slept for 8 hours", () => {
  it("sends what became due meanwhile within two minutes, and nothing early", async () => {
    const { clock, sent, aborted, clockEvents, enqueue } = await setup();
    await enqueue(T0);
    const during = await enqueue(T0 + 4 * HOUR_MS);
    const after = await enqueue(T0 + 9 * HOUR_MS);
    await clock.advance(1000);
    clock.step(8 * HOUR_MS);
    await clock.advance(120_000);
    expect(sent.map(({ task }) => task.taskId)).toContain(during.taskId);
    expect(sent).toHaveLength(2);
    expect(aborted).toEqual([]);
    expect(clockEvents().map(({ type }) => type)).toEqual(["clock.following", "clock.synced"]);
    await clock.advance(HOUR_MS);
    expect(sent.map(({ task }) => task.taskId)).toContain(after.taskId);
    for (const { task, wallAt } of sent) expect(wallAt).toBeGreaterThanOrEqual(task.scheduledAt);
  });
});

describe("an engine whose clock jumps a year ahead", () => {
  it("does not follow it, says so once, and sends a task in 20 seconds after 20 seconds", async () => {
    const { clock, engine, sent, clockEvents, enqueue } = await setup();
    clock.step(YEAR_MS);
    await clock.advance(60_000);
    const startAt = engine.now();
    const task = await enqueue(startAt + 20_000);
    await clock.advance(19_000);
    expect(sent).toEqual([]);
    await clock.advance(2000);
    expect(sent.map((one) => one.task.taskId)).toEqual([task.taskId]);
    await clock.advance(600_000);
    expect(clockEvents()).toMatchObject([{ type: "clock.refused" }]);
    expect(clockEvents()[0]?.reason).toContain("1 year ahead");
    expect(engine.clock()).toEqual({ state: "refused", skewMs: YEAR_MS });
  });
});

describe("an engine whose clock is set back", () => {
  it("by a day continues at its pace", async () => {
    const { clock, engine, sent, enqueue } = await setup();
    clock.step(-24 * HOUR_MS);
    await clock.advance(60_000);
    await enqueue(engine.now() + 20_000);
    await clock.advance(21_000);
    expect(sent).toHaveLength(1);
    expect(engine.clock().state).toBe("refused");
  });

  it("by a minute runs slower until the clock agrees, and reports both", async () => {
    const { clock, engine, clockEvents } = await setup();
    clock.step(-60_000);
    await clock.advance(6_100_000);
    expect(clockEvents().map(({ type }) => type)).toEqual(["clock.ahead", "clock.synced"]);
    expect(Math.abs(engine.clock().skewMs)).toBeLessThanOrEqual(1000);
  });
});

describe("a store that is ahead of the clock", () => {
  const storeAt = async (now: number) => {
    const store = memoryStore();
    await store.renew(report("old", { now, leaseMs: 0 }));
    return store;
  };

  it("is refused beyond an hour, with the command that repairs it", async () => {
    const opening = setup({}, await storeAt(T0 + HOUR_MS + 1));
    await expect(opening).rejects.toMatchObject({ code: "CLOCK_BEHIND" });
    await expect(opening).rejects.toThrow(/redrive doctor --repair-clock/);
  });

  it("is accepted up to the limit of the options", async () => {
    const { engine } = await setup(
      { maxClockAheadMs: 2 * HOUR_MS },
      await storeAt(T0 + HOUR_MS + 1),
    );
    expect(engine.clock()).toEqual({ state: "ahead", skewMs: -HOUR_MS - 1 });
  });
});

describe("a node whose lease cannot be renewed", () => {
  const leaseOf = async (leaseMs?: number) => {
    const clock = steppingClock(T0);
    // The clock of the store does not jump when that of the node does.
    const storeClock = { now: () => T0 + clock.monotonicMs() };
    const inner = memoryStore({ exclusive: false, clock: storeClock });
    const store: Store & { -readonly [name in "renew"]: Store[name] } = { ...inner };
    let leaseUntil = 0;
    store.renew = async (report) => {
      const renewal = await inner.renew(report);
      leaseUntil = renewal.now + report.leaseMs;
      return renewal;
    };
    const bench = await setup({ leaseMs, retryBudget: false, clock }, store);
    return { ...bench, store, leaseUntil: () => leaseUntil };
  };

  it.each([undefined, 5000, 60_000])(
    "aborts its attempts before the lease ends (leaseMs %s)",
    async (leaseMs) => {
      const { clock, store, engine, sent, aborted, enqueue, leaseUntil } = await leaseOf(leaseMs);
      const lengthMs = leaseMs ?? 10_000;
      await clock.advance(lengthMs * 1.1);
      await enqueue(engine.now());
      await clock.advance(10);
      expect(sent).toHaveLength(1);
      store.renew = () => Promise.reject(new Error("no connection"));
      const untilMs = leaseUntil() - clock.now();
      await clock.advance(untilMs - lengthMs * 0.1 - 1);
      expect(aborted).toEqual([]);
      await clock.advance(1);
      expect(aborted).toEqual([sent[0]?.task.taskId]);
      expect(clock.now()).toBeLessThan(leaseUntil());
    },
  );

  it("renews it about every second, and in an exclusive store five times per length", async () => {
    const countRenewals = async (store: Store, clock = steppingClock(T0)) => {
      let renewals = 0;
      const renew = (report: NodeReport) => {
        renewals++;
        return store.renew(report);
      };
      await setup({ leaseMs: 60_000, clock }, wrapped<Store>(store, { renew }));
      renewals = 0;
      await clock.advance(120_000);
      return renewals;
    };
    expect(await countRenewals(memoryStore())).toBe(10);
    const clock = steppingClock(T0);
    const renewals = await countRenewals(memoryStore({ exclusive: false, clock }), clock);
    expect(renewals).toBeGreaterThanOrEqual(118);
    expect(renewals).toBeLessThanOrEqual(132);
  });

  it("does not lose it when the clock is set, and sends nothing until it knows", async () => {
    const { clock, engine, sent, aborted, enqueue } = await leaseOf();
    await enqueue(engine.now());
    await clock.advance(10);
    expect(sent).toHaveLength(1);
    clock.step(HOUR_MS);
    await enqueue(engine.now());
    expect(sent).toHaveLength(1);
    await clock.advance(1100);
    expect(sent).toHaveLength(2);
    expect(aborted).toEqual([]);
  });

  it.each([0, 999, 600_001, Number.NaN])("refuses a length of %s ms", async (leaseMs) => {
    await expect(leaseOf(leaseMs)).rejects.toThrow(/leaseMs must be 1000 to 600000/);
  });
});
