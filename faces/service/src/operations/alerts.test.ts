/**
 * Tests of alerts: when they fire, when they are over, and what the nodes of a fleet post. Tests of
 * the window that counts ended tasks: it agrees with a list of all ends.
 */
import { virtualClock } from "@redrive/core";
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import type { EngineEvent, EngineEventType } from "../engine/events.ts";
import { blankDestination } from "../model/destination-row.ts";
import type { NewTask } from "../model/task.ts";
import { memoryDocuments } from "../stores/memory/memory-documents.ts";
import { Alerts, EndedWindow, resolveAlerts } from "./alerts.ts";

const CHECK_MS = 10_000;
const HOUR_MS = 3_600_000;

/** A store that several nodes share. A task exists once per key. */
function fleet(exclusive = false) {
  const clock = virtualClock(1_800_000_000_000);
  const created: NewTask[] = [];
  const state = { isDown: false, open: new Set<string>() };
  const documents = memoryDocuments();
  const down = <T>(value: T): T => {
    if (state.isDown) throw new Error("the store is down");
    return value;
  };

  function node(nodeId: string) {
    const own = { oldestDueAt: Number.POSITIVE_INFINITY, isDead: false };
    let listener: (event: EngineEvent) => void = () => {};
    const alerts = new Alerts(resolveAlerts({ url: "https://ops.example.com/alerts" }), {
      clock,
      nodeId,
      exclusive,
      documents: {
        put: async (document) => await down(documents).put(document),
        get: async (...key) => await down(documents).get(...key),
        getMany: (...keys) => documents.getMany(...keys),
        list: async (...page) => await down(documents).list(...page),
        remove: (...key) => documents.remove(...key),
      },
      now: () => clock.now(),
      onEvent(given) {
        listener = given;
        return () => {};
      },
      oldestDueAt: () => own.oldestDueAt,
      openCircuits: async (tenantId) =>
        [...state.open].map((name) => ({ ...blankDestination(tenantId, name) })),
      newTaskId: () => `id-${created.length}`,
      async create(task) {
        down(task);
        if (own.isDead) throw new Error("the process is dead");
        const isKnown = created.some(
          ({ idempotencyKey }) => idempotencyKey === task.idempotencyKey,
        );
        if (!isKnown) created.push(task);
      },
    });
    alerts.start();
    const emit = (type: EngineEventType, fields: Partial<EngineEvent> = {}) =>
      listener({ id: "n-1", at: clock.now(), type, ...fields });
    return { alerts, own, emit };
  }

  const bodies = () =>
    created.map(({ body }) => JSON.parse(new TextDecoder().decode(body ?? undefined)));
  const posted = () =>
    bodies().map(({ type, destination, alert }) => `${type} ${destination ?? alert}`);
  return { clock, created, state, documents, node, bodies, posted };
}

const ORDERS = { tenantId: "default", destination: "orders" };

describe("a breaker", () => {
  it("that flaps and then stays open is told again: each opening is an episode of its own", async () => {
    const { clock, state, node, posted, bodies } = fleet();
    const { emit } = node("a");
    for (let flap = 0; flap < 2; flap++) {
      emit("breaker.opened", ORDERS);
      await clock.advance(3300);
      emit("breaker.closed", ORDERS);
      await clock.advance(3200);
    }
    emit("breaker.opened", ORDERS);
    state.open.add("orders");
    await clock.advance(300_000);
    expect(posted()).toEqual([
      "alert.firing orders",
      "alert.resolved orders",
      "alert.firing orders",
      "alert.resolved orders",
      "alert.firing orders",
    ]);
    const episodes = bodies().map(({ episode }) => episode);
    expect(new Set(episodes).size).toBe(3);
    expect(episodes[0]).toBe(episodes[1]);
  });

  it("is told by one node, and its end by another one, once each", async () => {
    const { clock, state, node, posted } = fleet();
    const [one, other] = [node("a"), node("b")];
    one.emit("breaker.opened", ORDERS);
    state.open.add("orders");
    await clock.advance(10 * CHECK_MS);
    expect(await other.alerts.firing()).toMatchObject([
      { kind: "breaker-open", destination: "orders" },
    ]);
    other.emit("breaker.closed", ORDERS);
    state.open.delete("orders");
    await clock.advance(10 * CHECK_MS);
    expect(posted()).toEqual(["alert.firing orders", "alert.resolved orders"]);
    expect(await one.alerts.firing()).toEqual([]);
  });

  it("is told by the other node if the one that opened it dies before it could", async () => {
    const { clock, state, node, posted } = fleet();
    const [one] = [node("a"), node("b")];
    one.own.isDead = true;
    one.emit("breaker.opened", ORDERS);
    state.open.add("orders");
    await clock.advance(CHECK_MS);
    expect(posted()).toEqual(["alert.firing orders"]);
  });

  it("that nobody has reported, because the node died at once, is found, and so is its end", async () => {
    const { clock, state, node, posted } = fleet();
    node("a");
    state.open.add("orders");
    await clock.advance(CHECK_MS);
    state.open.delete("orders");
    await clock.advance(CHECK_MS);
    expect(posted()).toEqual(["alert.firing orders", "alert.resolved orders"]);
  });

  it("that stays open is told again every hour, once in the whole fleet", async () => {
    const { clock, state, node, posted, created } = fleet();
    const nodes = ["a", "b", "c"].map(node);
    nodes[1]?.emit("breaker.opened", ORDERS);
    state.open.add("orders");
    await clock.advance(3 * HOUR_MS + CHECK_MS);
    expect(posted()).toEqual(Array(4).fill("alert.firing orders"));
    expect(new Set(created.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(4);
  });

  it("that is open before and after a restart is one episode", async () => {
    const { clock, state, node, posted } = fleet(true);
    const before = node("a");
    before.emit("breaker.opened", ORDERS);
    state.open.add("orders");
    await clock.advance(CHECK_MS);
    before.alerts.stop();
    const { alerts } = node("a2");
    await clock.advance(HOUR_MS / 2);
    expect(posted()).toEqual(["alert.firing orders"]);
    expect(await alerts.firing()).toHaveLength(1);
  });

  it("of a target on the receiver's own origin counts; that of the alerts themselves does not", async () => {
    const { clock, node, posted } = fleet();
    const { emit } = node("a");
    const destination = "https://ops.example.com";
    emit("breaker.opened", { tenantId: "default", destination });
    emit("breaker.opened", { tenantId: "default", destination: "redrive.alerts" });
    await clock.advance(0);
    expect(posted()).toEqual([`alert.firing ${destination}`]);
  });

  it("is told when the store can take the alert again", async () => {
    const { clock, state, node, posted } = fleet();
    const { emit } = node("a");
    state.isDown = true;
    emit("breaker.opened", ORDERS);
    await clock.advance(3 * CHECK_MS);
    expect(posted()).toEqual([]);
    state.isDown = false;
    state.open.add("orders");
    await clock.advance(CHECK_MS);
    expect(posted()).toEqual(["alert.firing orders"]);
  });
});

describe("dead letters", () => {
  it("fire once above one percent of the ended tasks, and are over when they leave the window", async () => {
    const { clock, node, bodies } = fleet();
    const { emit } = node("a");
    for (let n = 0; n < 990; n++) emit("task.succeeded");
    for (let n = 0; n < 10; n++) emit("task.exhausted");
    await clock.advance(CHECK_MS);
    expect(bodies()).toEqual([]);
    emit("task.exhausted");
    await clock.advance(3 * CHECK_MS);
    expect(bodies()).toMatchObject([
      { type: "alert.firing", alert: "dead-letters", threshold: 0.01 },
    ]);
    expect(bodies()[0].summary).toContain("11 of 1001 tasks");
    expect(bodies()[0].runbook).toBe("docs/runbook.md#dead-letters");
    await clock.advance(320_000);
    expect(bodies().map(({ type }) => type)).toEqual(["alert.firing", "alert.resolved"]);
  });

  it("fewer than ten are no surge, whatever their share", async () => {
    const { clock, node, posted } = fleet();
    const { emit } = node("a");
    for (let n = 0; n < 9; n++) emit("task.exhausted");
    await clock.advance(CHECK_MS);
    expect(posted()).toEqual([]);
    emit("task.exhausted");
    await clock.advance(CHECK_MS);
    expect(posted()).toEqual(["alert.firing dead-letters"]);
  });

  it("of all nodes count together, and a second surge is told again", async () => {
    const { clock, node, posted } = fleet();
    const nodes = ["a", "b", "c"].map(node);
    const surge = () => {
      for (const { emit } of nodes) for (let n = 0; n < 4; n++) emit("task.exhausted");
    };
    surge();
    await clock.advance(3 * CHECK_MS);
    expect(posted()).toEqual(["alert.firing dead-letters"]);
    await clock.advance(330_000);
    surge();
    await clock.advance(3 * CHECK_MS);
    const [firing, resolved] = ["alert.firing dead-letters", "alert.resolved dead-letters"];
    expect(posted()).toEqual([firing, resolved, firing]);
  });

  it("are not over because the process has restarted", async () => {
    const { clock, node, posted } = fleet(true);
    const before = node("a");
    for (let n = 0; n < 10; n++) before.emit("task.exhausted");
    await clock.advance(CHECK_MS);
    before.alerts.stop();
    node("a2");
    await clock.advance(2 * CHECK_MS);
    expect(posted()).toEqual(["alert.firing dead-letters"]);
  });

  it("of alerts themselves do not count", async () => {
    const { clock, node, posted } = fleet();
    const { emit } = node("a");
    const labels = { "redrive.alert": "breaker-open" };
    for (let n = 0; n < 20; n++) emit("task.exhausted", { destination: "redrive.alerts", labels });
    await clock.advance(CHECK_MS);
    expect(posted()).toEqual([]);
  });
});

describe("late tasks", () => {
  it("fire when the oldest due task of any node waits for more than a minute", async () => {
    const { clock, node, bodies, posted } = fleet();
    const [one] = [node("a"), node("b")];
    one.own.oldestDueAt = clock.now();
    await clock.advance(60_000);
    expect(bodies()).toEqual([]);
    await clock.advance(2 * CHECK_MS);
    expect(bodies()).toMatchObject([
      { type: "alert.firing", alert: "late-tasks", threshold: 60_000 },
    ]);
    one.own.oldestDueAt = Number.POSITIVE_INFINITY;
    await clock.advance(3 * CHECK_MS);
    expect(posted()).toEqual(["alert.firing late-tasks", "alert.resolved late-tasks"]);
  });

  it("of a node that has died are over when it has not reported for half a minute", async () => {
    const { clock, node, posted } = fleet();
    const [one] = [node("a"), node("b")];
    one.own.oldestDueAt = clock.now() - 120_000;
    await clock.advance(2 * CHECK_MS);
    one.alerts.stop();
    await clock.advance(5 * CHECK_MS);
    expect(posted()).toEqual(["alert.firing late-tasks", "alert.resolved late-tasks"]);
  });
});

it("a refused clock fires, and is over when the clock is right again", async () => {
  const { clock, node, posted } = fleet(true);
  const { emit } = node("a");
  emit("clock.refused", { reason: "a year ahead" });
  await clock.advance(0);
  emit("clock.synced");
  await clock.advance(0);
  expect(posted()).toEqual(["alert.firing clock-refused", "alert.resolved clock-refused"]);
});

it("episodes that are over are forgotten after a day, and so are nodes", async () => {
  const { clock, node, documents } = fleet();
  const [one, other] = [node("a"), node("b")];
  one.emit("breaker.opened", ORDERS);
  await clock.advance(0);
  one.emit("breaker.closed", ORDERS);
  await clock.advance(CHECK_MS);
  other.alerts.stop();
  await clock.advance(25 * HOUR_MS);
  expect((await documents.list("alert", { limit: 10 })).documents).toEqual([]);
  const reports = (await documents.list("alert-report", { limit: 10 })).documents;
  expect(reports.map(({ id }) => id)).toEqual(["a"]);
});

const WINDOW_MS = 30_000;
const STEP_MS = 1000;

test("counts what ended in the last window, to a thirtieth of its length", () => {
  const ends = fc.array(fc.record({ afterMs: fc.nat(20_000), isDead: fc.boolean() }), {
    minLength: 1,
    maxLength: 60,
  });
  fc.assert(
    fc.property(ends, (steps) => {
      const window = new EndedWindow(WINDOW_MS);
      const all: { at: number; isDead: boolean }[] = [];
      let now = 1_800_000_000_000;
      for (const { afterMs, isDead } of steps) {
        now += afterMs;
        window.record(now, isDead);
        all.push({ at: now, isDead });
        const { ended, dead } = window.counts(now);
        const within = (ms: number) => all.filter(({ at }) => at > now - ms);
        const [least, most] = [within(WINDOW_MS - STEP_MS), within(WINDOW_MS)];
        expect(ended).toBeGreaterThanOrEqual(least.length);
        expect(ended).toBeLessThanOrEqual(most.length);
        expect(dead).toBeGreaterThanOrEqual(least.filter((one) => one.isDead).length);
        expect(dead).toBeLessThanOrEqual(most.filter((one) => one.isDead).length);
      }
    }),
  );
});

test("is empty after a window without ends", () => {
  const window = new EndedWindow(WINDOW_MS);
  window.record(1000, true);
  expect(window.counts(1000)).toEqual({ ended: 1, dead: 1 });
  expect(window.counts(1000 + WINDOW_MS)).toEqual({ ended: 0, dead: 0 });
});
