/**
 * Memory Kafka: topics in memory with the interface of kafkajs, on a clock that the test moves: partitions,
 * consumer groups that rebalance, paused partitions, committed offsets. `kafka.test.ts` runs the adapter
 * with the real kafkajs; here an hour passes in seconds.
 */
import type { TimeSource } from "@redrive/core";

interface Stored {
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly timestamp: string;
  readonly offset: string;
}

interface Place {
  readonly topic: string;
  readonly partition: number;
}

interface Output {
  readonly key?: Uint8Array | string | null;
  readonly value?: Uint8Array | string | null;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly timestamp?: string;
}

interface Batch extends Place {
  readonly highWatermark: string;
  readonly messages: readonly Stored[];
}

type Listener = (event: { readonly payload: object }) => void;
type EachBatch = (payload: {
  readonly batch: Batch;
  readonly resolveOffset: (offset: string) => void;
}) => Promise<void>;

const LATENCY_MS = 5;

/** Records of one fetch. */
const MAX_FETCH = 100;

const keyOf = ({ topic, partition }: Place) => `${topic}/${partition}`;

export class MemoryKafka {
  readonly time: TimeSource;
  readonly #partitions: number;
  readonly #topics = new Map<string, Stored[][]>();
  readonly #committed = new Map<string, number>();
  readonly #members = new Set<MemoryMember>();
  #turn = 0;
  /** Records that members have got. */
  delivered = 0;

  constructor(time: TimeSource, partitions: number) {
    this.time = time;
    this.#partitions = partitions;
  }

  /** What the adapter gets: as a `Kafka` of kafkajs. */
  client(): object {
    return {
      logger: () => undefined,
      consumer: () => new MemoryMember(this),
      producer: () => ({
        connect: () => this.latency(),
        disconnect: () => this.latency(),
        send: async ({ topic, messages }: { topic: string; messages: readonly Output[] }) => {
          await this.latency();
          for (const message of messages) this.append(topic, message);
          await this.latency();
        },
      }),
      admin: () => ({
        connect: () => this.latency(),
        disconnect: () => this.latency(),
        fetchTopicMetadata: async ({ topics }: { topics: readonly string[] }) => ({
          topics: topics.map((name) => ({ name, partitions: this.#topics.get(name) ?? [] })),
        }),
        createTopics: async ({ topics }: { topics: readonly { readonly topic: string }[] }) => {
          for (const { topic } of topics) this.create(topic);
        },
      }),
    };
  }

  latency(): Promise<void> {
    return new Promise((resolve) => void this.time.alarm(LATENCY_MS, resolve));
  }

  create(topic: string): Stored[][] {
    const found = this.#topics.get(topic);
    if (found !== undefined) return found;
    const created = Array.from({ length: this.#partitions }, () => []);
    this.#topics.set(topic, created);
    return created;
  }

  append(topic: string, { key = null, value = null, headers = {}, timestamp }: Output): void {
    const partition = this.#turn++ % this.#partitions;
    const log = this.create(topic)[partition] ?? [];
    const bytes = (text: Uint8Array | string | null) =>
      typeof text === "string" ? new TextEncoder().encode(text) : text;
    log.push({
      key: bytes(key),
      value: bytes(value),
      headers,
      timestamp: timestamp ?? String(this.time.now()),
      offset: String(log.length),
    });
    for (const member of this.#members) member.wake({ topic, partition });
  }

  log({ topic, partition }: Place): readonly Stored[] {
    return this.#topics.get(topic)?.[partition] ?? [];
  }

  delete(topic: string): void {
    this.#topics.delete(topic);
  }

  records(topic: string): readonly Stored[] {
    return this.#topics.get(topic)?.flat() ?? [];
  }

  committed(place: Place): number {
    return this.#committed.get(keyOf(place)) ?? 0;
  }

  commit(place: Place, offset: number): void {
    this.#committed.set(keyOf(place), offset);
  }

  join(member: MemoryMember): void {
    this.#members.add(member);
    this.#rebalance();
  }

  leave(member: MemoryMember): void {
    if (this.#members.delete(member)) this.#rebalance();
  }

  #rebalance(): void {
    const members = [...this.#members];
    for (const member of members) member.emit("consumer.rebalancing", {});
    const shares = members.map((): Place[] => []);
    for (const topic of new Set(members.flatMap(({ topics }) => topics))) {
      for (const partition of this.create(topic).keys()) {
        shares[partition % members.length]?.push({ topic, partition });
      }
    }
    for (const [index, member] of members.entries()) member.assign(shares[index] ?? []);
  }
}

class MemoryMember {
  readonly #kafka: MemoryKafka;
  readonly #listeners = new Map<string, Listener[]>();
  readonly #positions = new Map<string, number>();
  readonly #paused = new Set<string>();
  readonly #fetching = new Set<string>();
  topics: readonly string[] = [];
  #eachBatch: EachBatch = async () => undefined;
  #generation = 0;

  constructor(kafka: MemoryKafka) {
    this.#kafka = kafka;
  }

  on(event: string, listener: Listener): void {
    this.#listeners.set(event, [...(this.#listeners.get(event) ?? []), listener]);
  }

  emit(event: string, payload: object): void {
    for (const listener of this.#listeners.get(event) ?? []) listener({ payload });
  }

  connect(): Promise<void> {
    return this.#kafka.latency();
  }

  async disconnect(): Promise<void> {
    this.#generation++;
    this.#positions.clear();
    this.#kafka.leave(this);
    await this.#kafka.latency();
  }

  async subscribe({ topics }: { readonly topics: readonly string[] }): Promise<void> {
    this.topics = topics;
  }

  async run({ eachBatch }: { readonly eachBatch: EachBatch }): Promise<void> {
    this.#eachBatch = eachBatch;
    await this.#kafka.latency();
    this.#kafka.join(this);
  }

  assign(places: readonly Place[]): void {
    this.#generation++;
    this.#positions.clear();
    this.#fetching.clear();
    for (const place of places) this.#positions.set(keyOf(place), this.#kafka.committed(place));
    const memberAssignment: Record<string, number[]> = {};
    for (const { topic, partition } of places) {
      memberAssignment[topic] = [...(memberAssignment[topic] ?? []), partition];
    }
    this.emit("consumer.group_join", { memberAssignment });
    for (const place of places) this.wake(place);
  }

  /** Fetches, unless it does so already. */
  wake(place: Place): void {
    const key = keyOf(place);
    const position = this.#positions.get(key);
    if (position === undefined || this.#paused.has(key) || this.#fetching.has(key)) return;
    if (this.#kafka.log(place).length <= position) return;
    this.#fetching.add(key);
    const generation = this.#generation;
    this.#kafka.time.alarm(LATENCY_MS, () => {
      if (generation !== this.#generation) return;
      this.#fetching.delete(key);
      void this.#deliver(place, key);
    });
  }

  async #deliver(place: Place, key: string): Promise<void> {
    if (this.#paused.has(key)) return;
    const log = this.#kafka.log(place);
    const position = this.#positions.get(key) ?? 0;
    const messages = log.slice(position, position + MAX_FETCH);
    this.#positions.set(key, position + messages.length);
    this.#kafka.delivered += messages.length;
    let next = position;
    const resolveOffset = (offset: string) => {
      next = Number(offset) + 1;
    };
    const batch = { ...place, highWatermark: String(log.length), messages };
    await this.#eachBatch({ batch, resolveOffset });
    // Confluent's client delivers a batch again if its partition was paused before its offset was resolved.
    if (this.#paused.has(key)) this.#positions.set(key, next);
    this.wake(place);
  }

  pause(
    topics: readonly { readonly topic: string; readonly partitions: readonly number[] }[],
  ): void {
    for (const { topic, partitions } of topics) {
      for (const partition of partitions) this.#paused.add(keyOf({ topic, partition }));
    }
  }

  resume(
    topics: readonly { readonly topic: string; readonly partitions: readonly number[] }[],
  ): void {
    for (const { topic, partitions } of topics) {
      for (const partition of partitions) {
        this.#paused.delete(keyOf({ topic, partition }));
        this.wake({ topic, partition });
      }
    }
  }

  async commitOffsets(offsets: readonly (Place & { readonly offset: string })[]): Promise<void> {
    const generation = this.#generation;
    await this.#kafka.latency();
    if (generation !== this.#generation) {
      throw Object.assign(new Error("the group has changed"), { type: "ILLEGAL_GENERATION" });
    }
    for (const { offset, ...place } of offsets) this.#kafka.commit(place, Number(offset));
  }
}
