/**
 * Tests that the last hour survives restarts, adds up nodes, and stays bounded. Tests that the ring
 * of minutes counts like a list of all records, and forgets what is older.
 */
import { virtualClock } from "@redrive/core";
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import {
  type AttemptSummary,
  type EngineEvent,
  EngineEvents,
  type EngineEventType,
} from "../engine/events.ts";
import { type MemoryStore, memoryStore } from "../stores/memory/memory-store.ts";
import { batch, create, T0, TENANT } from "../stores/store.testing.ts";
import {
  ACTIVITY_DOCUMENT,
  ActivityRecorder,
  MINUTE_MS,
  MINUTES,
  MinuteCounts,
  minuteOf,
} from "./activity.ts";

type Emit = (type: EngineEventType, fields?: Partial<EngineEvent>) => void;

function setup(store: MemoryStore = memoryStore(), clock = virtualClock(T0)) {
  const boot = (nodeId: string) => {
    const events = new EngineEvents(nodeId);
    const engine = { nodeId, events, now: () => clock.now() };
    const recorder = new ActivityRecorder({ clock, store, engine });
    recorder.start();
    const emit: Emit = (type, fields = {}) =>
      events.emit(clock.now(), { tenantId: TENANT, destination: "pay", type, ...fields });
    return { recorder, emit };
  };
  const read = async (recorder: ActivityRecorder) =>
    (await recorder.ofTenant(TENANT, clock.now())).counts;
  return { store, clock, boot, read };
}

const sum = (list: readonly number[]) => list.reduce((total, count) => total + count, 0);

describe("the last hour of a tenant", () => {
  it("counts tasks, attempts, retries and ends, each in its minute", async () => {
    const { clock, boot, read } = setup();
    const { recorder, emit } = boot("a");
    emit("task.created");
    emit("attempt.started", { attemptNumber: 1 });
    await clock.advance(MINUTE_MS);
    emit("attempt.started", { attemptNumber: 2 });
    emit("task.succeeded", { attemptNumber: 2 });
    emit("task.exhausted");
    emit("task.cancelled");
    emit("task.created", { tenantId: "zeta" });
    const counts = await read(recorder);
    const ends = Object.entries(counts).map(([name, list]) => [name, ...list.slice(-2)]);
    expect(ends).toEqual([
      ["created", 1, 0],
      ["attempts", 1, 1],
      ["retries", 0, 1],
      ["succeeded", 0, 1],
      ["deadLetters", 0, 1],
      ["canceled", 0, 1],
      ["oldestAgeMs", 0, 0],
    ]);
  });

  it("survives a restart, also an unclean one except for the last minute", async () => {
    const { clock, boot, read } = setup();
    const first = boot("a");
    first.emit("task.created");
    await first.recorder.stop();
    first.emit("task.created");
    const second = boot("b");
    second.emit("task.created");
    expect(sum((await read(second.recorder)).created)).toBe(2);
    await clock.advance(MINUTE_MS);
    second.emit("task.created");
    const third = boot("c");
    expect(sum((await read(third.recorder)).created)).toBe(2);
  });

  it("adds up the nodes, and takes the greatest age of the oldest open task", async () => {
    const { store, clock, boot, read } = setup();
    await store.commit(batch({ creates: [create()] }));
    const [one, two] = [boot("a"), boot("b")];
    one.emit("attempt.started");
    two.emit("attempt.started");
    await clock.advance(2 * MINUTE_MS);
    const counts = await read(one.recorder);
    expect(sum(counts.attempts)).toBe(2);
    expect(counts.oldestAgeMs.slice(-3)).toEqual([0, MINUTE_MS, 2 * MINUTE_MS]);
  });

  it("ends after an hour, and the documents of ended nodes are removed", async () => {
    const { store, clock, boot, read } = setup();
    const first = boot("a");
    first.emit("task.created");
    await first.recorder.stop();
    const second = boot("b");
    second.emit("task.created");
    await clock.advance(59 * MINUTE_MS);
    expect(sum((await read(second.recorder)).created)).toBe(2);
    await clock.advance(62 * MINUTE_MS);
    expect(sum((await read(second.recorder)).created)).toBe(0);
    const { documents } = await store.documents.list(ACTIVITY_DOCUMENT, { limit: 9 });
    expect(documents.map(({ id }) => id)).not.toContain("a");
  });

  it("ignores a document that another version wrote, and saves again after a failure", async () => {
    const { store, clock, boot, read } = setup();
    const texts = ["no JSON", "{}", '{"version":1,"minute":1e99}', '{"version":2}'];
    const documents = texts.map((text, n) => ({
      kind: ACTIVITY_DOCUMENT,
      tenantId: TENANT,
      id: `old-${n}`,
      text,
    }));
    await store.commit(batch({ documents }));
    let isDown = true;
    const flaky = Object.create(store, {
      commit: {
        value: (...args: Parameters<MemoryStore["commit"]>) =>
          isDown ? Promise.reject(new Error("down")) : store.commit(...args),
      },
    }) as MemoryStore;
    const down = setup(flaky, clock);
    const node = down.boot("a");
    node.emit("task.created");
    await clock.advance(MINUTE_MS);
    isDown = false;
    await clock.advance(MINUTE_MS);
    expect(sum((await read(boot("b").recorder)).created)).toBe(1);
  });
});

describe("the last hour of a destination", () => {
  it("counts attempts, retries and failed attempts", () => {
    const { clock, boot } = setup();
    const { recorder, emit } = boot("a");
    const attempt = { outcome: "status", responseStatus: 503 } as AttemptSummary;
    emit("attempt.started", { attemptNumber: 1 });
    emit("attempt.failed", { attempt });
    emit("attempt.started", { attemptNumber: 2 });
    emit("task.succeeded", { attempt });
    emit("task.exhausted");
    const { counts, firstMinuteAt } = recorder.ofDestination(TENANT, "pay", clock.now());
    expect(Object.values(counts).map((list) => list.at(-1))).toEqual([2, 1, 1]);
    expect(firstMinuteAt).toBeGreaterThan(T0 - 3_600_000);
    expect(sum(recorder.ofDestination(TENANT, "other", clock.now()).counts.attempts)).toBe(0);
    expect(sum(recorder.ofDestination("zeta", "pay", clock.now()).counts.attempts)).toBe(0);
  });

  it("is failing while half of the attempts of the last five minutes have failed, and three", async () => {
    const { clock, boot } = setup();
    const { recorder, emit } = boot("a");
    const recent = () => recorder.recentOf(TENANT, "pay", clock.now());
    const attempt = (hasFailed: boolean) => {
      emit("attempt.started");
      if (hasFailed) emit("attempt.failed", { attempt: {} as AttemptSummary });
    };
    expect(recent()).toEqual({ attempts: 0, failed: 0, failing: false });
    for (const hasFailed of [true, true]) attempt(hasFailed);
    expect(recent()).toEqual({ attempts: 2, failed: 2, failing: false });
    for (const hasFailed of [true, false, false, false]) attempt(hasFailed);
    expect(recent()).toEqual({ attempts: 6, failed: 3, failing: true });
    attempt(false);
    expect(recent().failing).toBe(false);
    await clock.advance(5 * MINUTE_MS);
    expect(recent()).toEqual({ attempts: 0, failed: 0, failing: false });
  });

  it("is kept for a thousand destinations at most", () => {
    const { clock, boot } = setup();
    const { recorder, emit } = boot("a");
    const attemptsOf = (n: number) =>
      sum(recorder.ofDestination(TENANT, `d${n}`, clock.now()).counts.attempts);
    for (let n = 0; n <= 1000; n++) emit("attempt.started", { destination: `d${n}` });
    expect([attemptsOf(0), attemptsOf(1), attemptsOf(1000)]).toEqual([0, 1, 1]);
  });
});

const measures = ["one", "two"] as const;
const steps = fc.array(
  fc.record({
    stepMs: fc.oneof(fc.integer({ min: 0, max: 90_000 }), fc.integer({ min: 0, max: 5_000_000 })),
    lateMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 4_000_000 })),
    measure: fc.constantFrom(...measures),
  }),
  { maxLength: 60 },
);

test("the counts of an hour are those of a list of all records", () => {
  fc.assert(
    fc.property(fc.integer({ min: -10_000_000, max: 1e12 }), steps, (start, list) => {
      const counts = new MinuteCounts(measures);
      const all: { readonly minute: number; readonly measure: string }[] = [];
      let now = start;
      for (const { stepMs, lateMs, measure } of list) {
        now += stepMs;
        counts.add(now, measure);
        counts.add(now - lateMs, measure);
        all.push({ minute: minuteOf(now), measure });
        // A minute that was left before it was recorded is not counted.
        if (minuteOf(now - lateMs) > minuteOf(now) - MINUTES) {
          all.push({ minute: minuteOf(now - lateMs), measure });
        }
      }
      for (const measure of measures) {
        const expected = Array.from({ length: MINUTES }, (_, index) => {
          const minute = minuteOf(now) - MINUTES + 1 + index;
          return all.filter((one) => one.minute === minute && one.measure === measure).length;
        });
        expect(counts.read(now)[measure]).toEqual(expected);
      }
    }),
  );
});

test("what is older than an hour is forgotten, and a sampled value keeps its maximum", () => {
  const counts = new MinuteCounts(measures);
  counts.add(0, "one", 3);
  for (const value of [5, 9, 7]) counts.raise(MINUTE_MS, "two", value);
  expect(counts.read(MINUTE_MS).one.slice(-2)).toEqual([3, 0]);
  expect(counts.read(MINUTE_MS).two.slice(-2)).toEqual([0, 9]);
  expect(counts.read(MINUTES * MINUTE_MS).one).toEqual(Array(MINUTES).fill(0));
  expect(counts.minute).toBe(1);
});
