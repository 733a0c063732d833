/**
 * Kafka: consumes the records of a topic with the caller's own client, `kafkajs` or
 * `@confluentinc/kafka-javascript`. A record that fails is copied to a retry topic, whose records all wait
 * equally long, so one that fails does not stop those behind it. Offsets are committed only when every
 * record before them is done or stored elsewhere.
 */
import {
  booleanRule,
  type Cancel,
  checkFields,
  choiceRule,
  compilePolicy,
  DocumentError,
  type Fields,
  invalidArgument,
  numberRule,
  type Policy,
  type PolicyDocument,
  type PresetName,
  policyDocumentOf,
  type Rule,
  resolvePolicy,
  textRule,
} from "@redrive/core";
import type { Consumer } from "./consumer.ts";
import { tierFor } from "./delay-tiers.ts";
import {
  createMissingTopics,
  type KafkaClient,
  type KafkaHeader,
  type KafkaHeaders,
  type KafkaMember,
  type KafkaOutput,
  type KafkaPlace,
  type KafkaProducerClient,
  type KafkaRecord,
  keyOf,
  memberOf,
  producerOf,
  sendRecords,
} from "./kafka-client.ts";
import {
  type Defer,
  type Disposition,
  decodeState,
  encodeState,
  type Message,
  type MessageState,
  type RetryLater,
} from "./message.ts";
import { type Worker, WorkerState } from "./worker.ts";

/** What a handler gets as the body of a message. */
export interface KafkaBody extends KafkaPlace, KafkaRecord {}

export interface KafkaOptions {
  /** A `Kafka` of `kafkajs`, or of `KafkaJS` of `@confluentinc/kafka-javascript`. */
  readonly client: KafkaClient;
  readonly topic: string;
  /** The consumer group. Its name is part of the names of the retry topics. */
  readonly group: string;
  /**
   * Which records run one after the other: those of a `partition`, those with the same `key`, or `none`.
   * Default: `partition`.
   */
  readonly order?: KafkaOrder | undefined;
  /**
   * Where a record that fails waits: in a retry topic, so that those behind it overtake it, or in its own
   * `place`, so that its partition waits with it and no record ever overtakes another. Default: `topics`.
   */
  readonly retryIn?: "topics" | "place" | undefined;
  /** Where a new group starts: at the oldest record, or at the next one. Default: true. */
  readonly fromBeginning?: boolean | undefined;
  /** The most retry topics. Waits are rounded up to the next topic. 1 to 100. Default: 8. */
  readonly maxTiers?: number | undefined;
  /** Creates the topics of the retries and of the dead letters, if they do not exist. Default: true. */
  readonly createTopics?: boolean | undefined;
  /** Offsets are committed together after this time. 10 ms to 1 min. Default: 200. */
  readonly commitMs?: number | undefined;
  /** The id of a message. Default: its topic, partition and offset when it was first read. */
  readonly idOf?: ((record: KafkaRecord) => string | undefined) | undefined;
  /** More options for the consumer and the producer of the client. */
  readonly consumerConfig?: object | undefined;
  readonly producerConfig?: object | undefined;
}

const nameRule = textRule(/^[a-zA-Z0-9._-]{1,100}$/, "1 to 100 characters of A-Z a-z 0-9 . _ -");
const functionRule: Rule = (value) => (typeof value === "function" ? undefined : "a function");
const objectRule: Rule = (value) =>
  typeof value === "object" && value !== null ? undefined : "an object";
const clientRule: Rule = (value) => {
  const client = Object(value) as Partial<Record<keyof KafkaClient, unknown>>;
  const needed = [client.consumer, client.producer, client.admin];
  return needed.every((one) => typeof one === "function")
    ? undefined
    : "a Kafka of kafkajs or of @confluentinc/kafka-javascript";
};

const FIELDS: Fields & Readonly<Record<keyof KafkaOptions, unknown>> = {
  client: clientRule,
  topic: nameRule,
  group: nameRule,
  order: choiceRule("partition", "key", "none"),
  retryIn: choiceRule("topics", "place"),
  fromBeginning: booleanRule,
  maxTiers: numberRule(1, 100),
  createTopics: booleanRule,
  commitMs: numberRule(10, 60_000),
  idOf: functionRule,
  consumerConfig: objectRule,
  producerConfig: objectRule,
};

/** Connects a consumer to a topic. Use one worker per consumer. */
export function kafka(consumer: Consumer<KafkaBody>, options: KafkaOptions): Worker {
  const problems = checkFields(options, FIELDS);
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
  for (const name of ["client", "topic", "group"] as const) {
    if (options[name] === undefined) throw invalidArgument(`${name} is required`, options[name]);
  }
  const { topic, group, maxTiers } = options;
  return new KafkaWorker({
    consumer,
    client: options.client,
    group,
    tiers: tiersOf(consumer.policy, { topic, group, maxTiers }),
    order: options.order ?? "partition",
    isInPlace: options.retryIn === "place",
    fromBeginning: options.fromBeginning ?? true,
    createTopics: options.createTopics ?? true,
    commitMs: options.commitMs ?? 200,
    idOf: options.idOf ?? (() => undefined),
    consumerConfig: options.consumerConfig ?? {},
    producerConfig: options.producerConfig ?? {},
  });
}

interface KafkaWorkerParts {
  readonly consumer: Consumer<KafkaBody>;
  readonly client: KafkaClient;
  readonly group: string;
  readonly tiers: Tiers;
  readonly order: KafkaOrder;
  readonly isInPlace: boolean;
  readonly fromBeginning: boolean;
  readonly createTopics: boolean;
  readonly commitMs: number;
  readonly idOf: (record: KafkaRecord) => string | undefined;
  readonly consumerConfig: object;
  readonly producerConfig: object;
}

/** Headers of a copy. */
const ID = "redrive-id";
const STATE = "redrive-state";
const NOT_BEFORE = "redrive-not-before";
const REASON = "redrive-reason";
const OWN_HEADERS: ReadonlySet<string> = new Set([ID, STATE, NOT_BEFORE, REASON]);

/** Reasons that hold every message for a while: the record waits where it is, and nothing is copied. */
const IN_PLACE: ReadonlySet<Defer["by"]> = new Set(["guard", "paused", "store", "retries", "stop"]);

const isHere = (disposition: Disposition) =>
  disposition.kind === "defer" && IN_PLACE.has(disposition.by);

/** Partitions that a rebalance takes away may finish what they run for this time. */
const DRAIN_MS = 10_000;

/** What a stop asks of Kafka may take this time. */
const STOP_MS = 10_000;

/**
 * The client hands its records over at once and goes on, so that it shows that it is alive however long
 * handlers take. What waits here is bounded: a partition with many records is paused.
 */
class KafkaWorker implements Worker {
  readonly #parts: KafkaWorkerParts;
  readonly #state: WorkerState;
  readonly #outbox: Outbox;
  /** The retry topics. */
  readonly #delays: ReadonlyMap<string, number>;
  readonly #partitions = new Map<string, KafkaPartition>();

  // Mutable state.
  #member: KafkaMember | undefined;
  #producer: KafkaProducerClient | undefined;
  /** Where the last dispatch ended: partitions take turns, and so do new records and retries. */
  #turn = 0;
  #isRetryTurn = false;
  #isRebalancing = false;
  #cancelCommit: Cancel | undefined;
  #committing: Promise<void> | undefined;
  #restarting: Promise<void> | undefined;
  #ignoreLimit: () => void = () => undefined;
  readonly #onDrained: (() => void)[] = [];

  constructor(parts: KafkaWorkerParts) {
    this.#parts = parts;
    this.#state = new WorkerState(parts.consumer);
    const retryTopics = parts.isInPlace ? [] : parts.tiers.retryTopics;
    this.#delays = new Map(retryTopics.map(({ name, delayMs }) => [name, delayMs]));
    this.#outbox = new Outbox(this.#state, (topic, messages) => this.#send(topic, messages));
  }

  async start(): Promise<void> {
    const { client, tiers, createTopics, producerConfig, consumer } = this.#parts;
    const others = [...this.#delays.keys(), tiers.deadLetterTopic];
    if (createTopics) await createMissingTopics(client, tiers.topic, others);
    this.#producer = producerOf(client, producerConfig);
    try {
      await this.#producer.connect();
      await this.#join();
    } catch (error) {
      await this.#disconnect();
      throw error;
    }
    this.#ignoreLimit = consumer.onLimit(() => this.#dispatch());
  }

  async #join(): Promise<void> {
    const { client, group, fromBeginning, consumerConfig, producerConfig, tiers } = this.#parts;
    const settings = { group, fromBeginning, consumer: consumerConfig, producer: producerConfig };
    this.#member = memberOf(client, settings, {
      receive: (place, records, endOffset) => this.#receive(place, records, endOffset),
      rebalancing: () => {
        this.#isRebalancing = true;
        void this.#commitNow();
      },
      assigned: (places) => this.#assigned(places),
      revoked: (places, isLost) => this.#revoked(places, isLost),
      failed: (error) => void this.#state.fail(error),
      crashed: (error) => this.#restart(error),
    });
    await this.#member.run([tiers.topic, ...this.#delays.keys()]);
  }

  /** The client has given up. A new consumer of it joins the group. */
  #restart(error: unknown): void {
    this.#restarting ??= this.#rejoin(error).finally(() => {
      this.#restarting = undefined;
    });
  }

  async #rejoin(cause: unknown): Promise<void> {
    let error = cause;
    while (!this.#state.isStopping) {
      await this.#state.pause(this.#state.fail(error));
      if (this.#state.isStopping) return;
      try {
        await this.#member?.consumer.disconnect().catch(() => undefined);
        await this.#join();
        return;
      } catch (failure) {
        error = failure;
      }
    }
  }

  async stop(drainMs?: number): Promise<void> {
    this.#state.stop();
    this.#ignoreLimit();
    await this.#restarting;
    await this.#parts.consumer.stop(drainMs);
    await this.#state.idle();
    await this.#atMost(this.#commitNow());
    await this.#disconnect();
  }

  async #disconnect(): Promise<void> {
    this.#cancelCommit?.();
    const { consumer } = this.#member ?? {};
    await this.#atMost(consumer?.disconnect().catch(() => undefined));
    await this.#atMost(this.#producer?.disconnect().catch(() => undefined));
  }

  /** A client may wait for a broker that is down for much longer than a stop should. */
  async #atMost(ending: Promise<unknown> | undefined): Promise<void> {
    let cancel: Cancel = () => undefined;
    const late = new Promise<void>((resolve) => {
      cancel = this.#parts.consumer.clock.alarm(STOP_MS, resolve);
    });
    await Promise.race([ending, late]);
    cancel();
  }

  #partitionAt(place: KafkaPlace): KafkaPartition {
    const key = keyOf(place);
    const found = this.#partitions.get(key);
    if (found !== undefined) return found;
    const delayMs = this.#delays.get(place.topic);
    // A retry topic has lost the order already.
    const order = delayMs === undefined ? this.#parts.order : "none";
    const partition = new KafkaPartition(place, order, delayMs);
    this.#partitions.set(key, partition);
    return partition;
  }

  #receive(
    place: KafkaPlace,
    records: readonly KafkaRecord[],
    endOffset: number | undefined,
  ): void {
    if (this.#state.isStopping) return;
    const partition = this.#partitionAt(place);
    partition.add(records, endOffset);
    // A client that has started again has nothing paused.
    if (partition.isFull || partition.isPaused) this.#pause(partition, true);
    this.#dispatch();
  }

  #pause(partition: KafkaPartition, isPaused: boolean): void {
    const { topic, partition: number } = partition.place;
    const places = [{ topic, partitions: [number] }];
    partition.isPaused = isPaused;
    const { consumer } = this.#member ?? {};
    try {
      if (isPaused) consumer?.pause(places);
      else consumer?.resume(places);
    } catch {
      // The client does not run at the moment. Its next run has nothing paused.
      partition.isPaused = false;
    }
  }

  #assigned(places: readonly KafkaPlace[]): void {
    this.#isRebalancing = false;
    this.#state.recover();
    const own = new Set(places.map(keyOf));
    for (const [key, partition] of this.#partitions) {
      if (own.has(key)) partition.rejoin();
      else this.#forget(key, partition);
    }
    this.#scheduleCommit();
    this.#dispatch();
  }

  /** Another process handles its records from the offset that was committed. */
  #forget(key: string, partition: KafkaPartition): void {
    partition.isRevoked = true;
    this.#partitions.delete(key);
    this.#wakeDrained();
  }

  async #revoked(places: readonly KafkaPlace[], isLost: boolean): Promise<void> {
    const found = places.flatMap((place) => this.#partitions.get(keyOf(place)) ?? []);
    for (const partition of found) partition.isEnding = true;
    if (!isLost) {
      await this.#drained(found);
      await this.#commitNow();
    }
    for (const partition of found) this.#forget(keyOf(partition.place), partition);
  }

  /** Resolves when nothing of these partitions runs, or when that takes too long. */
  async #drained(partitions: readonly KafkaPartition[]): Promise<void> {
    const { clock } = this.#parts.consumer;
    let isLate = false;
    const cancel = clock.alarm(DRAIN_MS, () => {
      isLate = true;
      this.#wakeDrained();
    });
    while (!isLate && partitions.some(({ running }) => running > 0)) {
      await new Promise<void>((resolve) => this.#onDrained.push(resolve));
    }
    cancel();
  }

  #wakeDrained(): void {
    for (const resolve of this.#onDrained.splice(0)) resolve();
  }

  /** Starts records as far as the consumer has slots. */
  #dispatch(): void {
    const { consumer } = this.#parts;
    if (this.#state.isStopping || this.#isRebalancing) return;
    while (consumer.free > 0) {
      const partition = this.#nextPartition();
      if (partition === undefined) return;
      const held = partition.first();
      if (held === undefined) return;
      partition.start();
      void this.#handle(partition, held);
      if (partition.isPaused && partition.hasRoom) this.#pause(partition, false);
    }
  }

  /** New records and retries take turns, as far as there are both. */
  #nextPartition(): KafkaPartition | undefined {
    this.#isRetryTurn = !this.#isRetryTurn;
    const first = this.#nextOf(this.#isRetryTurn);
    return first ?? this.#nextOf(!this.#isRetryTurn);
  }

  /** The next partition of the topic or of the retry topics, in turns. */
  #nextOf(isRetry: boolean): KafkaPartition | undefined {
    if (isRetry && this.#parts.consumer.freeForRetries === 0) return undefined;
    const all = [...this.#partitions.values()];
    for (let step = 1; step <= all.length; step++) {
      const at = (this.#turn + step) % all.length;
      const partition = all[at];
      if (partition === undefined || isRetry !== (partition.delayMs !== undefined)) continue;
      if (partition.isEnding || !this.#isDue(partition)) continue;
      this.#turn = at;
      return partition;
    }
    return undefined;
  }

  /** Its first record may start. The records behind one that is not due are due later. */
  #isDue(partition: KafkaPartition): boolean {
    const held = partition.first();
    if (held === undefined || this.#isHeld(partition)) return false;
    if (partition.delayMs === undefined) return true;
    const { clock } = this.#parts.consumer;
    const waitMs = Number(held.record.timestamp) + partition.delayMs - clock.now();
    if (waitMs > 0) this.#wait(partition, waitMs);
    return waitMs <= 0;
  }

  #isHeld(partition: KafkaPartition): boolean {
    if (partition.heldUntilMs === 0) return false;
    const leftMs = partition.heldUntilMs - this.#parts.consumer.clock.monotonicMs();
    if (leftMs > 0) this.#wait(partition, leftMs);
    else partition.heldUntilMs = 0;
    return leftMs > 0;
  }

  /** Looks at the partition again after this time, and not before if it is `held`. */
  #wait(partition: KafkaPartition, waitMs: number, isHeld = false): void {
    const { clock } = this.#parts.consumer;
    const untilMs = clock.monotonicMs() + waitMs;
    if (isHeld) partition.heldUntilMs = Math.max(partition.heldUntilMs, untilMs);
    if (partition.alarmAtMs > 0 && partition.alarmAtMs <= untilMs) return;
    partition.alarmAtMs = untilMs;
    clock.alarm(
      waitMs,
      () => {
        partition.alarmAtMs = 0;
        this.#dispatch();
      },
      true,
    );
  }

  /** Never rejects. */
  async #handle(partition: KafkaPartition, held: HeldRecord): Promise<void> {
    this.#state.begin();
    const message = this.#messageOf(partition, held);
    const disposition =
      this.#earlyOf(partition, held, message) ?? (await this.#parts.consumer.handle(message));
    partition.running--;
    if (!partition.isRevoked) await this.#carryOut(partition, held, message, disposition);
    this.#wakeDrained();
    this.#state.end();
    this.#dispatch();
  }

  #messageOf(
    { place, delayMs }: KafkaPartition,
    { record, offset, state }: HeldRecord,
  ): Message<KafkaBody> {
    const own = delayMs === undefined ? {} : (record.headers ?? {});
    const id = textOf(own[ID]) ?? this.#parts.idOf(record) ?? `${keyOf(place)}/${offset}`;
    const headers = foreignHeaders(record.headers);
    const body: KafkaBody = { ...record, headers, ...place };
    return { id, body, state: state ?? decodeState(textOf(own[STATE])) };
  }

  /** A wait that is longer than the longest topic goes through that topic again. */
  #earlyOf(
    { delayMs }: KafkaPartition,
    { record }: HeldRecord,
    { state }: Message<KafkaBody>,
  ): Defer | undefined {
    if (delayMs === undefined || state === undefined) return undefined;
    const notBeforeAt = Number(textOf(record.headers?.[NOT_BEFORE]) ?? 0);
    const leftMs = notBeforeAt - this.#parts.consumer.clock.now();
    return leftMs > 0 ? { kind: "defer", by: "handler", delayMs: leftMs, state } : undefined;
  }

  async #carryOut(
    partition: KafkaPartition,
    held: HeldRecord,
    { id }: Message<KafkaBody>,
    disposition: Disposition,
  ): Promise<void> {
    const { tiers, consumer, isInPlace } = this.#parts;
    if ("delayMs" in disposition && (isInPlace || isHere(disposition))) {
      this.#putBack(partition, held, disposition);
      return;
    }
    const now = consumer.clock.now();
    const placement = tiers.placementOf(disposition, now);
    if (placement !== undefined && disposition.kind !== "ack") {
      const { state } = disposition;
      const own = {
        [ID]: id,
        [STATE]: encodeState(state satisfies MessageState),
        [NOT_BEFORE]: String(placement.notBeforeAt),
        ...(disposition.kind === "dead-letter" && { [REASON]: disposition.reason }),
      };
      const { key, value } = held.record;
      const headers = { ...foreignHeaders(held.record.headers), ...own };
      const copy = { key, value, headers, timestamp: String(now) };
      // Until Kafka has stored it, the offset is not committed, so a crash loses nothing.
      if (!(await this.#outbox.send(placement.topic, copy))) return;
    }
    partition.end(held);
    this.#scheduleCommit();
    if (partition.isPaused && partition.hasRoom) this.#pause(partition, false);
  }

  /** What holds one message now holds the others of the partition as well. */
  #putBack(partition: KafkaPartition, held: HeldRecord, disposition: Defer | RetryLater): void {
    const { state, delayMs } = disposition;
    // The whole partition waits, so its waits do not grow with each deferral.
    held.state = { ...state, deferrals: 0 };
    partition.putBack(held);
    if (disposition.kind === "retry" || disposition.by !== "stop") {
      this.#wait(partition, delayMs, true);
    }
  }

  async #send(topic: string, messages: readonly KafkaOutput[]): Promise<void> {
    if (this.#producer === undefined) throw new Error("the worker has not started");
    await sendRecords(this.#parts.client, this.#producer, topic, messages);
    this.#state.recover();
  }

  #scheduleCommit(): void {
    if (this.#state.isStopping) return;
    const { consumer, commitMs } = this.#parts;
    this.#cancelCommit ??= consumer.clock.alarm(
      commitMs,
      () => {
        this.#cancelCommit = undefined;
        void this.#commitNow();
      },
      true,
    );
  }

  /** One commit at a time, so that an earlier one never overwrites a later one. Never rejects. */
  async #commitNow(): Promise<void> {
    while (this.#committing !== undefined) await this.#committing;
    this.#committing = this.#commit().finally(() => {
      this.#committing = undefined;
    });
    await this.#committing;
  }

  async #commit(): Promise<void> {
    const wanted = [...this.#partitions.values()].flatMap((partition) => {
      const { position, committed } = partition;
      return position === undefined || position === committed ? [] : [{ partition, position }];
    });
    if (wanted.length === 0) return;
    const offsets = wanted.map(({ partition: { place }, position }) => ({
      ...place,
      offset: String(position),
    }));
    try {
      await this.#member?.consumer.commitOffsets(offsets);
      for (const { partition, position } of wanted) partition.committed = position;
      this.#state.recover();
    } catch (error) {
      // In a rebalance, the offsets are committed when it is over.
      if (!this.#isRebalancing && !isOfRebalance(error)) this.#state.fail(error);
      this.#scheduleCommit();
    }
  }
}

interface Waiting {
  readonly topic: string;
  readonly message: KafkaOutput;
  readonly stored: (isStored: boolean) => void;
}

/** Records of one request. */
const MAX_REQUEST = 100;

/** Writes copies: all of one turn with one request per topic. What fails is written again. */
class Outbox {
  readonly #state: WorkerState;
  readonly #write: (topic: string, messages: readonly KafkaOutput[]) => Promise<void>;

  // Mutable state.
  readonly #waiting = new Map<string, Waiting[]>();

  constructor(
    state: WorkerState,
    write: (topic: string, messages: readonly KafkaOutput[]) => Promise<void>,
  ) {
    this.#state = state;
    this.#write = write;
  }

  /** Resolves with false if the worker stops before it is stored. */
  send(topic: string, message: KafkaOutput): Promise<boolean> {
    return new Promise((stored) => {
      const waiting = this.#waiting.get(topic);
      const one = { topic, message, stored };
      if (waiting !== undefined) waiting.push(one);
      else {
        this.#waiting.set(topic, [one]);
        void this.#writeAll(topic);
      }
    });
  }

  /** One request at a time for each topic: what comes meanwhile goes with the next one. */
  async #writeAll(topic: string): Promise<void> {
    // At the end of the turn, others wait as well.
    await undefined;
    const waiting = this.#waiting.get(topic) ?? [];
    while (waiting.length > 0) await this.#writeSome(topic, waiting.splice(0, MAX_REQUEST));
    this.#waiting.delete(topic);
  }

  async #writeSome(topic: string, some: readonly Waiting[]): Promise<void> {
    try {
      await this.#write(
        topic,
        some.map(({ message }) => message),
      );
      for (const { stored } of some) stored(true);
    } catch (error) {
      const delayMs = this.#state.fail(error);
      if (this.#state.isStopping) for (const { stored } of some) stored(false);
      else await this.#writeAgain(topic, some, delayMs);
    }
  }

  /** Each on its own: one that Kafka refuses must not keep the others from being stored. */
  async #writeAgain(topic: string, some: readonly Waiting[], delayMs: number): Promise<void> {
    await this.#state.pause(delayMs);
    if (some.length === 1) void this.#writeSome(topic, some);
    else for (const one of some) await this.#writeSome(topic, [one]);
  }
}

/** The headers without those of this adapter. */
function foreignHeaders(headers: KafkaHeaders = {}): KafkaHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !OWN_HEADERS.has(name)));
}

function textOf(header: KafkaHeader | readonly KafkaHeader[] | undefined): string | undefined {
  if (header === undefined || typeof header === "string") return header;
  if (Array.isArray(header)) return textOf(header.at(-1) as KafkaHeader | undefined);
  return new TextDecoder().decode(header as Uint8Array);
}

/** Errors of a member whose group is being formed anew. */
function isOfRebalance(error: unknown): boolean {
  const { type, code, cause } = Object(error) as Partial<
    Record<"type" | "code" | "cause", unknown>
  >;
  const names = ["REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"];
  const codes = [22, 25, 27];
  if (names.includes(String(type)) || codes.includes(Number(code))) return true;
  return cause !== undefined && isOfRebalance(cause);
}

// Tiers: the retry topics of a policy. A topic delivers its messages in order, so all messages of a retry topic
// wait equally long: its consumer can stop at the first message that is not due, because those behind it are
// due later.

export interface TiersOptions {
  /** The topic that producers write. */
  readonly topic: string;
  /** The consumer group. Part of the names, because groups retry independently. */
  readonly group: string;
  /** The most retry topics. Delays are rounded up to the next topic. 1 to 100. Default: 8. */
  readonly maxTiers?: number | undefined;
}

export interface RetryTopic {
  readonly name: string;
  /** Every message of the topic waits this long, counted from its timestamp. */
  readonly delayMs: number;
}

/** Where a message goes next. */
export interface Placement {
  readonly topic: string;
  /** The disposition asks for no earlier delivery; epoch ms. Keep it with the message. */
  readonly notBeforeAt: number;
}

export interface Tiers {
  readonly topic: string;
  /** In ascending order of their delays. */
  readonly retryTopics: readonly RetryTopic[];
  readonly deadLetterTopic: string;
  /** The retry topic after attempt number `attempt` failed, from 1; undefined after the last attempt. */
  tierOf(attempt: number): RetryTopic | undefined;
  /** The retry topic for a wait: the shortest that is not shorter, or the longest. */
  tierFor(delayMs: number): RetryTopic;
  /** Where a disposition sends the message; undefined for `ack`. */
  placementOf(disposition: Disposition, now: number): Placement | undefined;
  /** When a message of a retry topic is due; epoch ms. `timestamp`: when it was written there. */
  dueAt(topic: string, timestamp: number): number;
}

/** The names that Kafka allows, with room for the suffix. */
const NAME = /^[a-zA-Z0-9._-]{1,100}$/;

const MAX_TIERS = 100;

/** Computes the retry topics of a policy. */
export function tiers(policy: PolicyDocument | PresetName, options: TiersOptions): Tiers {
  return tiersOf(resolvePolicy(policyDocumentOf(policy)), options);
}

function tiersOf(policy: Policy, options: TiersOptions): Tiers {
  const { topic, group, maxTiers = 8 } = options;
  assertName("topic", topic);
  assertName("group", group);
  if (!Number.isInteger(maxTiers) || maxTiers < 1 || maxTiers > MAX_TIERS) {
    throw invalidArgument(`maxTiers must be a whole number from 1 to ${MAX_TIERS}`, maxTiers);
  }
  const { maxAttempts, ceilingMs } = compilePolicy(policy);
  const ceilings = ceilingsOf(maxAttempts, ceilingMs);
  const delays = atMost(maxTiers, ceilings);
  const prefix = `${topic}.${group}`;
  const retryTopics = delays.map((delayMs) => ({ name: `${prefix}.retry-${delayMs}`, delayMs }));
  const byDelay = new Map(retryTopics.map((one) => [one.delayMs, one]));
  const byName = new Map(retryTopics.map((one) => [one.name, one]));
  const deadLetterTopic = `${prefix}.dead`;
  const topicFor = (delayMs: number) => byDelay.get(tierFor(delays, delayMs)) as RetryTopic;
  return {
    topic,
    retryTopics,
    deadLetterTopic,
    tierFor: topicFor,
    tierOf(attempt) {
      return attempt < maxAttempts ? topicFor(Math.max(1, ceilingMs(attempt))) : undefined;
    },
    placementOf(disposition, now) {
      if (disposition.kind === "ack") return undefined;
      if (disposition.kind === "dead-letter") return { topic: deadLetterTopic, notBeforeAt: now };
      const { delayMs } = disposition;
      return { topic: topicFor(delayMs).name, notBeforeAt: now + delayMs };
    },
    dueAt(name, timestamp) {
      return timestamp + (byName.get(name)?.delayMs ?? 0);
    },
  };
}

function assertName(field: string, name: string): void {
  if (typeof name === "string" && NAME.test(name)) return;
  throw invalidArgument(`${field} must be 1 to 100 characters of A-Z a-z 0-9 . _ -`, name);
}

/** The longest wait after each attempt, without repetitions, in ascending order. At least 1 ms. */
function ceilingsOf(maxAttempts: number, ceilingMs: (attempt: number) => number): number[] {
  const all = new Set<number>();
  for (let attempt = 1; attempt < maxAttempts; attempt++) all.add(Math.max(1, ceilingMs(attempt)));
  // A policy without retries still defers messages.
  if (all.size === 0) all.add(Math.max(1, ceilingMs(1)));
  return [...all].sort((a, b) => a - b);
}

/** So many of the delays, evenly spread, with the longest one. */
function atMost(count: number, delays: readonly number[]): readonly number[] {
  if (delays.length <= count) return delays;
  return Array.from(
    { length: count },
    (_, index) => delays[Math.ceil(((index + 1) * delays.length) / count) - 1] as number,
  );
}

/** Which records of a partition may run at once. */
export type KafkaOrder = "partition" | "key" | "none";

export interface HeldRecord {
  readonly record: KafkaRecord;
  readonly offset: number;
  readonly bytes: number;
  /** Records with the same lane run one after the other; undefined: at any time. */
  readonly lane: string | undefined;
  /** Kept in the process, if the record waits in its place. */
  state: MessageState | undefined;
  isEnded: boolean;
}

/** Beyond either limit, the partition is paused; below half of both, it is resumed. */
const MAX_WAITING = 2000;
const MAX_WAITING_BYTES = 1_000_000;

/** Records between the first one that has not ended and the last one received. */
const MAX_SPAN = 10_000;

/**
 * The records of one partition that this process has: which of them may start, and up to where all of them have
 * ended. Kafka keeps one offset per partition and group, so an offset is committed only when every record before
 * it has ended.
 */
export class KafkaPartition {
  readonly place: KafkaPlace;
  /** What the worker knows of it: it is in a retry topic with this delay. */
  readonly delayMs: number | undefined;
  readonly #order: KafkaOrder;

  // Mutable state.
  isPaused = false;
  /** It belongs to another process now. What it did here counts for nothing. */
  isRevoked = false;
  /** It is about to be revoked: nothing more starts. */
  isEnding = false;
  /** Records that are being handled. */
  running = 0;
  /** The offset that was committed last; undefined: unknown. */
  committed: number | undefined;
  /** Nothing of it starts before then (monotonic); 0: it is not held. */
  heldUntilMs = 0;
  /** When the worker looks at it again (monotonic); 0: it has set no alarm. */
  alarmAtMs = 0;
  /** Received records from the first that has not ended. */
  #log: HeldRecord[] = [];
  #head = 0;
  readonly #known = new Map<number, HeldRecord>();
  #ready: HeldRecord[] = [];
  #readyHead = 0;
  readonly #lanes = new Map<string, HeldRecord[]>();
  #waiting = 0;
  #waitingBytes = 0;
  /** The offset after the last one received. */
  #next = -1;
  /** Kafka delivers again what was not committed. */
  #mayRepeat = false;

  constructor(place: KafkaPlace, order: KafkaOrder, delayMs: number | undefined) {
    this.place = place;
    this.#order = order;
    this.delayMs = delayMs;
  }

  /** Up to this offset, without it, all records have ended; undefined: nothing was received. */
  get position(): number | undefined {
    const first = this.#log[this.#head];
    if (first !== undefined) return first.offset;
    return this.#next < 0 ? undefined : this.#next;
  }

  get isFull(): boolean {
    const span = this.#log.length - this.#head;
    return (
      this.#waiting >= MAX_WAITING || this.#waitingBytes >= MAX_WAITING_BYTES || span >= MAX_SPAN
    );
  }

  get hasRoom(): boolean {
    const span = this.#log.length - this.#head;
    const isLow = this.#waiting * 2 < MAX_WAITING && this.#waitingBytes * 2 < MAX_WAITING_BYTES;
    return isLow && span * 2 < MAX_SPAN;
  }

  /** The group was formed anew: what was not committed is delivered again. */
  rejoin(): void {
    this.#mayRepeat = true;
    this.committed = undefined;
  }

  /** `endOffset`: where the partition ends now. */
  add(records: readonly KafkaRecord[], endOffset: number | undefined): void {
    const isNew = endOffset !== undefined && endOffset < this.#next;
    for (const record of records) this.#add(record, isNew);
  }

  #add(record: KafkaRecord, isNew: boolean): void {
    const offset = Number(record.offset);
    if (offset < this.#next) {
      if (this.#mayRepeat && !isNew) return;
      // Somebody has deleted and created the topic, or has set the offset back.
      this.#startOver();
    }
    this.#mayRepeat = false;
    this.#next = offset + 1;
    const lane = this.#laneOf(record);
    const bytes = (record.value?.byteLength ?? 0) + (record.key?.byteLength ?? 0);
    const held: HeldRecord = { record, offset, bytes, lane, state: undefined, isEnded: false };
    this.#log.push(held);
    this.#known.set(offset, held);
    this.#waiting++;
    this.#waitingBytes += bytes;
    const behind = lane === undefined ? undefined : this.#lanes.get(lane);
    if (behind !== undefined) behind.push(held);
    else {
      if (lane !== undefined) this.#lanes.set(lane, []);
      this.#ready.push(held);
    }
  }

  #startOver(): void {
    this.#log = [];
    this.#head = 0;
    this.#ready = [];
    this.#readyHead = 0;
    this.#known.clear();
    this.#lanes.clear();
    this.#waiting = 0;
    this.#waitingBytes = 0;
    this.committed = undefined;
  }

  #laneOf({ key }: KafkaRecord): string | undefined {
    if (this.#order === "none") return undefined;
    if (this.#order === "partition") return "";
    return key === null ? undefined : String.fromCharCode(...key.subarray(0, 1000));
  }

  /** The next record that may start. */
  first(): HeldRecord | undefined {
    return this.#ready[this.#readyHead];
  }

  /** Takes the record that `first` has shown. */
  start(): void {
    const held = this.#ready[this.#readyHead++];
    if (held === undefined) return;
    this.running++;
    this.#waiting--;
    this.#waitingBytes -= held.bytes;
    if (this.#readyHead < 1000) return;
    this.#ready = this.#ready.slice(this.#readyHead);
    this.#readyHead = 0;
  }

  /** The record could not be handled now, and is the next one again. */
  putBack(held: HeldRecord): void {
    if (!this.#isOwn(held)) return;
    this.#waiting++;
    this.#waitingBytes += held.bytes;
    this.#ready = [held, ...this.#ready.slice(this.#readyHead)];
    this.#readyHead = 0;
  }

  /** The record is done, or a copy of it is stored elsewhere. */
  end(held: HeldRecord): void {
    if (!this.#isOwn(held)) return;
    held.isEnded = true;
    this.#startBehind(held);
    for (;;) {
      const first = this.#log[this.#head];
      if (first === undefined || !first.isEnded) break;
      this.#known.delete(first.offset);
      this.#head++;
    }
    if (this.#head < 1000) return;
    this.#log = this.#log.slice(this.#head);
    this.#head = 0;
  }

  #startBehind({ lane }: HeldRecord): void {
    if (lane === undefined) return;
    const next = this.#lanes.get(lane)?.shift();
    if (next === undefined) this.#lanes.delete(lane);
    else this.#ready.push(next);
  }

  /** False for a record from before the partition started over. */
  #isOwn(held: HeldRecord): boolean {
    return this.#known.get(held.offset) === held;
  }
}
