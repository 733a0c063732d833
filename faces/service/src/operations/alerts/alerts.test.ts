/** Tests of alerts: when they fire, when they are over, and what they post. */
import { virtualClock } from "@redrive/core";
import { describe, expect, it } from "vitest";
import type { EngineEvent, EngineEventType } from "../../engine/events/engine-event.ts";
import type { NewTask } from "../../model/task.ts";
import { resolveAlerts } from "./alert-options.ts";
import { Alerts } from "./alerts.ts";

const CHECK_MS = 10_000;

function setup() {
  const clock = virtualClock(1_800_000_000_000);
  const created: NewTask[] = [];
  const state = { oldestDueAt: Number.POSITIVE_INFINITY, isStoreDown: false };
  let listener: (event: EngineEvent) => void = () => {};
  const alerts = new Alerts(resolveAlerts({ url: "https://ops.example.com/alerts" }), {
    clock,
    now: () => clock.now(),
    onEvent(given) {
      listener = given;
      return () => {};
    },
    oldestDueAt: () => state.oldestDueAt,
    newTaskId: () => `id-${created.length}`,
    async create(task) {
      if (state.isStoreDown) throw new Error("the store is down");
      created.push(task);
    },
  });
  alerts.start();
  const emit = (type: EngineEventType, fields: Partial<EngineEvent> = {}) =>
    listener({ id: "n-1", at: clock.now(), type, ...fields });
  const bodies = () =>
    created.map(({ body }) => JSON.parse(new TextDecoder().decode(body ?? undefined)));
  return { clock, alerts, created, state, emit, bodies };
}

describe("dead letters", () => {
  it("fire once above one percent of the ended tasks, and are over when they leave the window", async () => {
    const { clock, emit, bodies } = setup();
    for (let n = 0; n < 99; n++) emit("task.succeeded");
    emit("task.exhausted");
    await clock.advance(CHECK_MS);
    expect(bodies()).toEqual([]);
    emit("task.exhausted");
    await clock.advance(3 * CHECK_MS);
    expect(bodies()).toMatchObject([
      { type: "alert.firing", alert: "dead-letters", threshold: 0.01 },
    ]);
    expect(bodies()[0].summary).toContain("2 of 101 tasks");
    expect(bodies()[0].runbook).toBe("docs/runbook.md#dead-letters");
    await clock.advance(300_000);
    expect(bodies().map(({ type }) => type)).toEqual(["alert.firing", "alert.resolved"]);
  });

  it("of alerts themselves do not count", async () => {
    const { clock, emit, bodies } = setup();
    emit("task.exhausted", { destination: "https://ops.example.com" });
    await clock.advance(CHECK_MS);
    expect(bodies()).toEqual([]);
  });
});

describe("a breaker", () => {
  it("fires at once when it opens, for each destination, and is over when it closes", async () => {
    const { emit, bodies, created } = setup();
    const [first, second] = ["a", "b"].map((destination) => ({ tenantId: "t", destination }));
    emit("breaker.opened", first);
    emit("breaker.opened", first);
    emit("breaker.opened", second);
    emit("breaker.closed", first);
    expect(bodies().map(({ type, destination }) => [type, destination])).toEqual([
      ["alert.firing", "a"],
      ["alert.firing", "b"],
      ["alert.resolved", "a"],
    ]);
    const keys = created.map(({ idempotencyKey }) => idempotencyKey);
    expect(new Set(keys).size).toBe(3);
  });

  it("does not fire for the receiver of alerts, which could not be told", () => {
    const { emit, bodies } = setup();
    emit("breaker.opened", { tenantId: "default", destination: "https://ops.example.com" });
    expect(bodies()).toEqual([]);
  });
});

describe("late tasks", () => {
  it("fire when the oldest due task waits for more than a minute", async () => {
    const { clock, state, bodies } = setup();
    state.oldestDueAt = clock.now();
    await clock.advance(60_000);
    expect(bodies()).toEqual([]);
    await clock.advance(CHECK_MS);
    expect(bodies()).toMatchObject([{ type: "alert.firing", alert: "late-tasks", value: 70_000 }]);
    state.oldestDueAt = Number.POSITIVE_INFINITY;
    await clock.advance(CHECK_MS);
    expect(bodies()).toMatchObject([{}, { type: "alert.resolved", alert: "late-tasks" }]);
  });
});

it("a refused clock fires, and is over when the clock is right again", () => {
  const { emit, bodies } = setup();
  emit("clock.refused", { reason: "a year ahead" });
  emit("clock.synced");
  expect(bodies()).toMatchObject([
    { type: "alert.firing", alert: "clock-refused" },
    { type: "alert.resolved", alert: "clock-refused" },
  ]);
});

it("an alert that the store cannot take is created later", async () => {
  const { clock, state, emit, bodies } = setup();
  state.isStoreDown = true;
  emit("clock.refused");
  await clock.advance(CHECK_MS);
  expect(bodies()).toEqual([]);
  state.isStoreDown = false;
  await clock.advance(CHECK_MS);
  expect(bodies()).toMatchObject([{ alert: "clock-refused" }]);
});

it("nodes of a fleet give the same alert the same key", () => {
  const [one, other] = [setup(), setup()];
  one.emit("clock.refused");
  other.emit("clock.refused");
  expect(one.created[0]?.idempotencyKey).toBe(other.created[0]?.idempotencyKey);
});
