/** Tests the recipe for Kafka, with partitions in memory that have the interface of kafkajs. */
import type { Consumer, EachMessageHandler, KafkaMessage, Message, Producer } from "kafkajs";
import { expect, test } from "vitest";
import { runRecipe } from "./recipe.ts";

interface Record {
  readonly message: KafkaMessage;
}

/** A log with one partition per topic, whose clock the test moves. */
class MemoryLog {
  now = 1_700_000_000_000;
  readonly topics = new Map<string, Record[]>();
  readonly #next = new Map<string, number>();
  readonly #paused = new Set<string>();
  readonly #alarms: { readonly at: number; readonly fn: () => void }[] = [];
  #subscribed: readonly string[] = [];
  #eachMessage: EachMessageHandler = async () => undefined;

  readonly later = (ms: number, fn: () => void) => {
    this.#alarms.push({ at: this.now + ms, fn });
  };

  append(topic: string, { value, key, headers, timestamp }: Message): void {
    const records = this.topics.get(topic) ?? [];
    this.topics.set(topic, records);
    const offset = String(records.length);
    const own = {
      value: toBuffer(value),
      key: toBuffer(key),
      timestamp: timestamp ?? String(this.now),
      attributes: 0,
      offset,
    };
    records.push({ message: { ...own, headers: headers ?? {} } as KafkaMessage });
  }

  get producer(): Producer {
    const send = async ({ topic, messages }: { topic: string; messages: Message[] }) => {
      for (const message of messages) this.append(topic, message);
      return [];
    };
    return { send } as unknown as Producer;
  }

  get consumer(): Consumer {
    return {
      subscribe: async ({ topics }: { topics: string[] }) => {
        this.#subscribed = topics;
      },
      run: async ({ eachMessage }: { eachMessage: EachMessageHandler }) => {
        this.#eachMessage = eachMessage;
      },
      seek: ({ topic, offset }: { topic: string; offset: string }) => {
        this.#next.set(topic, Number(offset));
      },
    } as unknown as Consumer;
  }

  /** Delivers what can be delivered now. */
  async deliver(): Promise<void> {
    let isBusy = true;
    while (isBusy) {
      isBusy = false;
      for (const topic of this.#subscribed) isBusy = (await this.#deliverOne(topic)) || isBusy;
    }
  }

  async #deliverOne(topic: string): Promise<boolean> {
    const offset = this.#next.get(topic) ?? 0;
    const record = this.topics.get(topic)?.[offset];
    if (record === undefined || this.#paused.has(topic)) return false;
    this.#next.set(topic, offset + 1);
    const pause = () => {
      this.#paused.add(topic);
      return () => void this.#paused.delete(topic);
    };
    const heartbeat = async () => undefined;
    await this.#eachMessage({ topic, partition: 0, message: record.message, heartbeat, pause });
    return true;
  }

  async advance(ms: number): Promise<void> {
    this.now += ms;
    for (const { at, fn } of this.#alarms) if (at <= this.now) fn();
    await this.deliver();
  }
}

function toBuffer(value: Buffer | string | null | undefined): Buffer | null {
  return value === null || value === undefined ? null : Buffer.from(value);
}

interface KafkaRecipe {
  consumeOrders(parts: {
    readonly consumer: Consumer;
    readonly producer: Producer;
    readonly handler: (value: string) => Promise<void>;
    readonly now: () => number;
    readonly later: (ms: number, fn: () => void) => void;
  }): Promise<void>;
}

test("a message that fails waits in its topics, and does not block the others", async () => {
  const { consumeOrders } = await runRecipe<KafkaRecipe>("kafka");
  const log = new MemoryLog();
  const calls: string[] = [];
  const handler = async (value: string) => {
    calls.push(`${value} at ${log.now - 1_700_000_000_000}`);
    if (value === "bad") throw new Error("always fails");
  };
  const { consumer, producer, later } = log;
  await consumeOrders({ consumer, producer, handler, now: () => log.now, later });
  log.append("orders", { value: "bad" });
  log.append("orders", { value: "good" });
  await log.deliver();
  expect(calls).toEqual(["bad at 0", "good at 0"]);
  const topicOf = () => [...log.topics].filter(([, all]) => all.length > 0).map(([name]) => name);
  expect(topicOf()).toContain("orders.billing.retry-1000");
  // It is not due yet, and nobody handles it.
  await log.advance(999);
  expect(calls).toHaveLength(2);
  await log.advance(1);
  expect(calls.at(-1)).toBe("bad at 1000");
  for (let steps = 0; steps < 200 && !log.topics.has("orders.billing.dead"); steps++) {
    await log.advance(10_000);
  }
  const [dead] = log.topics.get("orders.billing.dead") ?? [];
  expect(dead?.message.value?.toString()).toBe("bad");
  const { headers = {} } = dead?.message ?? {};
  expect(headers["redrive-reason"]).toBe("attempts");
  expect(JSON.parse(String(headers["redrive-state"]))).toMatchObject({ attempts: 5 });
  expect(calls.filter((call) => call.startsWith("bad"))).toHaveLength(5);
});
