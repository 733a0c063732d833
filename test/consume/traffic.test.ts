/**
 * Consumers under traffic, for minutes of virtual time, on brokers in memory: messages that fail do not stop
 * the others, a fleet makes no dead letters of healthy messages, and a broken program leaves the messages in
 * their queue.
 */
import { destination } from "redrive";
import * as consume from "redrive/consume";
import { describe, expect, test } from "vitest";
import { type BrokerName, brokers, type Library, sqsWith } from "../servers/scenario/brokers.ts";
import { casesFor, fleetCases, TWELVE } from "../servers/scenario/cases.ts";
import { scenarioClock } from "../servers/scenario/clock.ts";
import { MemoryKafka } from "../servers/scenario/memory-kafka.ts";
import {
  HANDLER_MS,
  minutesOf,
  type Report,
  rate,
  runScenario,
  type ScenarioOptions,
} from "../servers/scenario/scenario.ts";

const library: Library = { ...consume, destination };

const run = (broker: BrokerName, scenario: ScenarioOptions): Promise<Report> =>
  runScenario(library, brokers[broker], scenario);

const names = Object.keys(brokers) as BrokerName[];

describe.each(names)("a consumer of %s", (name) => {
  // `npm run bench -- consumers` runs them for an hour, and the others.
  const short = casesFor({ steady: 2, before: 1, outage: 1, after: 3 });
  const chosen = short.filter(({ name: one }) =>
    /^(10 % fail|50 % fail|10 % fail, all guards|down for 1 min|.* with a breaker)$/u.test(one),
  );

  test.each(chosen)("handles all good messages: $name", async ({ scenario, problems }) => {
    const report = await run(name, scenario);
    expect(problems(report)).toEqual([]);
  });
});

test("a consumer of RabbitMQ handles good messages beside retries that are deferred all the time", async () => {
  const { good, left } = await run("RabbitMQ", {
    minutes: 2,
    failing: 50,
    options: () => ({
      deferMs: 400,
      maxDeferMs: 2000,
      policy: { maxAttempts: 100, initialDelayMs: 1000, multiplier: 1, totalBudgetMs: 86_400_000 },
    }),
  });
  expect(Math.min(...minutesOf(good))).toBeGreaterThanOrEqual(49.5);
  expect(left).toBeLessThan(10);
});

describe.each(names)("a fleet on %s makes no dead letters of healthy messages", (name) => {
  test.each(fleetCases)("in an outage of ten minutes: $name", async ({ scenario, problems }) => {
    const report = await run(name, scenario);
    expect(problems(report)).toEqual([]);
    expect(report.events["handled"]).toBe(scenario.burst);
  });
});

test("a fleet on SQS receives no message often enough for the queue to drop it", async () => {
  let inOutage: number[] = [];
  const report = await runScenario(
    library,
    sqsWith({ maxReceiveCount: 100 }, (queue, clock) => {
      clock.alarm(600_000, () => {
        inOutage = queue.messages.map(({ receives }) => receives);
      });
    }),
    {
      minutes: 240,
      burst: 2000,
      perSecond: 0,
      processes: 8,
      outage: { fromMs: 0, toMs: 600_000 },
      options: () => ({ policy: TWELVE }),
    },
  );
  expect(report).toMatchObject({ deadGood: 0, left: 0 });
  expect(inOutage).toHaveLength(2000);
  expect(Math.max(...inOutage)).toBeLessThanOrEqual(20);
});

describe("a handler that takes longer than its timeout and never reads its signal", () => {
  const late = (handlerMs: number): ScenarioOptions => ({
    minutes: 20,
    burst: 30,
    perSecond: 0,
    processes: 2,
    handlerMs: () => handlerMs,
    options: () => ({ policy: { attemptTimeoutMs: 10_000, totalBudgetMs: 3_600_000 } }),
  });

  test.each(names)("runs once, and its success settles the message: %s", async (name) => {
    const report = await run(name, late(11_000));
    expect(report).toMatchObject({ left: 0, repeated: 0, overlapping: 0, deadGood: 0 });
    expect(report.events).toMatchObject({ handled: 30, "still-running": 30 });
    expect(report.attempts.reduce((sum, count) => sum + count)).toBe(30);
  });

  test.each(names)("keeps its message for as long as it takes: %s", async (name) => {
    const report = await run(name, late(200_000));
    expect(report).toMatchObject({ left: 0, repeated: 0, overlapping: 0, deadGood: 0 });
    expect(report.attempts.reduce((sum, count) => sum + count)).toBe(30);
  });

  // A loop that waits for each disposition has no slot to give, and a partition keeps its order.
  const givers = names.filter((name) => !["Kafka", "ten loops over handle"].includes(name));

  test.each(givers)("gives its slot to other messages: %s", async (name) => {
    const { good, left } = await run(name, {
      minutes: 5,
      // All slots but one.
      handlerMs: (number) => (number < 225 && number % 25 === 0 ? 200_000 : HANDLER_MS),
      options: () => ({ policy: { attemptTimeoutMs: 10_000, totalBudgetMs: 3_600_000 } }),
    });
    expect(Math.min(...minutesOf(good).slice(1))).toBeGreaterThanOrEqual(99);
    expect(left).toBeLessThan(10);
  });
});

describe("a broken program", () => {
  const broken = (minutes: number): ScenarioOptions => ({
    minutes,
    burst: 1000,
    perSecond: 0,
    outage: { fromMs: 0, toMs: 600_000, failure: "mistake" },
  });

  test.each(names)("leaves all messages of %s in their queue", async (name) => {
    const report = await run(name, broken(10));
    expect(report).toMatchObject({ deadGood: 0, left: 1000, overcounted: 0 });
    expect(report.events["paused"]).toBe(1);
    // Ten that show the mistake, those that run beside them, and the probes.
    expect(rate(report.attempts, 0, 600) * 600).toBeLessThan(60);
  });

  test.each(names)("handles them when it is repaired: %s", async (name) => {
    const report = await run(name, broken(40));
    expect(report).toMatchObject({ deadGood: 0, left: 0, repeated: 0 });
    expect(report.events["resumed"]).toBe(1);
  });

  test.each(names)("that breaks while it runs loses at most a message: %s", async (name) => {
    const outage = { fromMs: 60_000, toMs: 660_000, failure: "mistake" } as const;
    const report = await run(name, { minutes: 30, perSecond: 10, outage });
    expect(report.deadGood).toBeLessThanOrEqual(1);
    expect(report.left - report.deadGood).toBeLessThanOrEqual(10);
  });

  test.each(names)("is told from bad messages, which become dead letters: %s", async (name) => {
    const bad = { minutes: 5, failing: 5, failure: "mistake", perSecond: 20 } as const;
    const report = await run(name, bad);
    expect(report.events["paused"]).toBeUndefined();
    expect(report).toMatchObject({ deadGood: 0 });
    expect(report.left).toBeLessThanOrEqual(10);
    expect(report.deadBad).toBeGreaterThan(0.9 * (report.published - report.publishedGood));
  });
});

describe("a consumer of Kafka", () => {
  const clock = () => scenarioClock(1_700_000_000_000);

  test("holds no more records than it can handle soon: the partition is paused", async () => {
    const time = clock();
    const topics = new MemoryKafka(time, 1);
    topics.create("orders");
    for (let n = 0; n < 20_000; n++) topics.append("orders", { value: String(n) });
    const ends: (() => void)[] = [];
    const offsets: number[] = [];
    const handler = ({ body }: consume.Message<consume.KafkaBody>) => {
      offsets.push(Number(body.offset));
      return new Promise<void>((resolve) => ends.push(resolve));
    };
    const consumer = consume.consume(handler, {
      clock: time,
      policy: { attemptTimeoutMs: 600_000, totalBudgetMs: 86_400_000 },
    });
    const client = topics.client() as consume.KafkaClient;
    const started = consume.kafka(consumer, { client, topic: "orders", group: "g" }).start();
    await time.runUntil(time.now() + 60_000);
    await started;
    expect(topics.delivered).toBeLessThanOrEqual(2100);
    expect(consumer.active).toBe(1);
    // It is resumed when half of them have ended.
    for (let n = 0; n < 1100; n++) {
      ends.at(-1)?.();
      await time.runUntil(time.now() + 20);
    }
    expect(topics.delivered).toBeGreaterThan(2000);
    expect(topics.delivered).toBeLessThanOrEqual(4000);
    expect(offsets).toEqual(offsets.map((_, index) => index));
  });

  test("copies nothing while the breaker is open: the records stay where they are", async () => {
    const report = await run("Kafka", {
      minutes: 4,
      outage: { fromMs: 60_000, toMs: 240_000 },
      options: ({ clock: time }) => ({
        destination: destination("shop", { policy: TWELVE, clock: time, breaker: {} }),
      }),
    });
    expect(report.events["retry"]).toBeLessThan(1000);
    const copied = Object.entries(report.events).filter(([name]) => name.startsWith("defer"));
    expect(copied.map(([name]) => name)).toEqual(["defer guard"]);
  });
});
