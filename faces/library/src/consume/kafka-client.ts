/**
 * Kafka client: the caller's own client, `kafkajs` or `@confluentinc/kafka-javascript` with its API of
 * kafkajs, behind one interface. They differ in where options go and in how they tell of a rebalance. The
 * library imports neither.
 */

/** A record as both clients show it. */
export interface KafkaRecord {
  readonly key: Uint8Array | null;
  /** Null: a tombstone. */
  readonly value: Uint8Array | null;
  readonly headers?: KafkaHeaders | undefined;
  /** When it was written; epoch ms. */
  readonly timestamp: string;
  readonly offset: string;
}

export type KafkaHeaders = Readonly<
  Record<string, KafkaHeader | readonly KafkaHeader[] | undefined>
>;
export type KafkaHeader = Uint8Array | string;

/** A record to write. */
export interface KafkaOutput {
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers: KafkaHeaders;
  readonly timestamp: string;
}

export interface KafkaPlace {
  readonly topic: string;
  readonly partition: number;
}

/** What the adapter needs of a `Kafka` of either client. */
export interface KafkaClient {
  consumer(config: object): KafkaConsumerClient;
  producer(config?: object): KafkaProducerClient;
  admin(config?: object): KafkaAdminClient;
}

interface KafkaConsumerClient {
  connect(): Promise<unknown>;
  disconnect(): Promise<unknown>;
  subscribe(input: { readonly topics: string[] }): Promise<unknown>;
  run(config: object): Promise<unknown>;
  pause(topics: { topic: string; partitions: number[] }[]): unknown;
  resume(topics: { topic: string; partitions: number[] }[]): unknown;
  commitOffsets(offsets: { topic: string; partition: number; offset: string }[]): Promise<unknown>;
  on(...values: never[]): unknown;
}

export interface KafkaProducerClient {
  connect(): Promise<unknown>;
  disconnect(): Promise<unknown>;
  send(record: never): Promise<unknown>;
}

interface KafkaAdminClient {
  connect(): Promise<unknown>;
  disconnect(): Promise<unknown>;
  fetchTopicMetadata(input: { topics: string[] }): Promise<unknown>;
  createTopics(input: never): Promise<unknown>;
}

/** What the client tells the worker. */
interface KafkaListener {
  /** Records of one partition, in their order. `endOffset`: of the whole partition, if it is known. */
  receive(place: KafkaPlace, records: readonly KafkaRecord[], endOffset: number | undefined): void;
  /** A rebalance has begun. */
  rebalancing(): void;
  /** These partitions, and no others, are its own. */
  assigned(places: readonly KafkaPlace[]): void;
  /** It loses these partitions when the promise resolves. `isLost`: another may have them already. */
  revoked(places: readonly KafkaPlace[], isLost: boolean): Promise<void>;
  /** The client has ended and does not start again by itself. */
  crashed(error: unknown): void;
  /** The client failed and starts again by itself. */
  failed(error: unknown): void;
}

interface KafkaSettings {
  readonly group: string;
  readonly fromBeginning: boolean;
  /** The caller's options for the consumer of its client. */
  readonly consumer: object;
  readonly producer: object;
}

/** A member of a consumer group, of either client. */
export interface KafkaMember {
  readonly consumer: KafkaConsumerClient;
  run(topics: string[]): Promise<void>;
}

interface Batch {
  readonly topic: string;
  readonly partition: number;
  readonly messages: readonly KafkaRecord[];
  readonly highWatermark?: string;
}

/** Only kafkajs has a logger at its `Kafka`. */
function isKafkaJs(client: KafkaClient): boolean {
  return typeof (client as { readonly logger?: unknown }).logger === "function";
}

interface BatchPayload {
  readonly batch: Batch;
  resolveOffset(offset: string): void;
}

/** Both clients hand the records of a batch over at once. What has ended is committed by the worker. */
function eachBatch(listener: KafkaListener) {
  return async ({ batch, resolveOffset }: BatchPayload) => {
    const { topic, partition, messages, highWatermark } = batch;
    const end = Number(highWatermark);
    const endOffset = highWatermark !== undefined && end >= 0 ? end : undefined;
    // If the partition is paused now, Confluent's client would deliver the batch again.
    const last = messages.at(-1);
    if (last !== undefined) resolveOffset(last.offset);
    listener.receive({ topic, partition }, messages, endOffset);
  };
}

export function memberOf(
  client: KafkaClient,
  settings: KafkaSettings,
  listener: KafkaListener,
): KafkaMember {
  return isKafkaJs(client)
    ? kafkaJsMember(client, settings, listener)
    : confluentMember(client, settings, listener);
}

interface KafkaJsEvent {
  readonly payload: {
    readonly memberAssignment?: Readonly<Record<string, readonly number[]>>;
    readonly error?: unknown;
    readonly restart?: boolean;
  };
}

/**
 * A fetch that waits for records does not learn that a partition was resumed. The default of kafkajs, 5 s,
 * would leave such a partition idle.
 */
const FETCH_WAIT_MS = 250;

function kafkaJsMember(
  client: KafkaClient,
  { group, fromBeginning, consumer: own }: KafkaSettings,
  listener: KafkaListener,
): KafkaMember {
  const consumer = client.consumer({ maxWaitTimeInMs: FETCH_WAIT_MS, ...own, groupId: group });
  const on = consumer.on.bind(consumer) as unknown as (
    event: string,
    heard: (event: KafkaJsEvent) => void,
  ) => unknown;
  on("consumer.rebalancing", () => listener.rebalancing());
  on("consumer.group_join", ({ payload: { memberAssignment = {} } }) => {
    const places = Object.entries(memberAssignment).flatMap(([topic, partitions]) =>
      partitions.map((partition) => ({ topic, partition })),
    );
    listener.assigned(places);
  });
  on("consumer.crash", ({ payload: { error, restart } }) =>
    restart ? listener.failed(error) : listener.crashed(error),
  );
  return {
    consumer,
    async run(topics) {
      await consumer.connect();
      await consumer.subscribe({ topics, fromBeginning } as { topics: string[] });
      await consumer.run({ autoCommit: false, eachBatch: eachBatch(listener) });
    },
  };
}

/** librdkafka's codes for the two kinds of a rebalance. */
const ASSIGN_PARTITIONS = -175;

interface ConfluentFns {
  assignmentLost?(): boolean;
}

/** Its consumer can be started once, so each start has a new one. */
function confluentMember(
  client: KafkaClient,
  { group, fromBeginning, consumer: own }: KafkaSettings,
  listener: KafkaListener,
): KafkaMember {
  const { kafkaJS = {}, ...rest } = own as { readonly kafkaJS?: object };
  const held = new Map<string, KafkaPlace>();
  const onRebalance = async (
    { code }: { readonly code: number },
    places: readonly KafkaPlace[],
    fns: ConfluentFns = {},
  ) => {
    if (code === ASSIGN_PARTITIONS) {
      for (const { topic, partition } of places)
        held.set(keyOf({ topic, partition }), { topic, partition });
      listener.assigned([...held.values()]);
      return;
    }
    await listener.revoked(places, fns.assignmentLost?.() === true);
    for (const place of places) held.delete(keyOf(place));
  };
  const consumer = client.consumer({
    ...rest,
    kafkaJS: { ...kafkaJS, groupId: group, fromBeginning, autoCommit: false },
    rebalance_cb: onRebalance,
  });
  return {
    consumer,
    async run(topics) {
      await consumer.connect();
      await consumer.subscribe({ topics });
      await consumer.run({ eachBatch: eachBatch(listener) });
    },
  };
}

export function keyOf({ topic, partition }: KafkaPlace): string {
  return `${topic}/${partition}`;
}

export function producerOf(client: KafkaClient, own: object): KafkaProducerClient {
  if (isKafkaJs(client)) return client.producer(own);
  const { kafkaJS = {}, ...rest } = own as { readonly kafkaJS?: object };
  // An answer only when all replicas have it.
  return client.producer({ ...rest, kafkaJS: { acks: -1, ...kafkaJS } });
}

/** Writes records. Resolves when Kafka has stored all of them. */
export async function sendRecords(
  client: KafkaClient,
  producer: KafkaProducerClient,
  topic: string,
  messages: readonly KafkaOutput[],
): Promise<void> {
  const send = producer.send.bind(producer) as unknown as (record: object) => Promise<unknown>;
  // The other client has `acks` among the options of its producer.
  await send({ topic, messages, ...(isKafkaJs(client) && { acks: -1 }) });
}

interface TopicMetadata {
  readonly name: string;
  readonly partitions: readonly unknown[];
}

/** Creates the topics that do not exist, with as many partitions as `like`. */
export async function createMissingTopics(
  client: KafkaClient,
  like: string,
  topics: readonly string[],
): Promise<void> {
  const admin = client.admin();
  await admin.connect();
  try {
    const known = await topicsOf(admin, [like]);
    const numPartitions = known.find(({ name }) => name === like)?.partitions.length ?? 1;
    const missing = await missingOf(admin, topics);
    if (missing.length === 0) return;
    const create = admin.createTopics.bind(admin) as unknown as (input: object) => Promise<unknown>;
    try {
      await create({ topics: missing.map((topic) => ({ topic, numPartitions })) });
    } catch (error) {
      // Another process may have created them meanwhile.
      if ((await missingOf(admin, topics)).length > 0) throw error;
    }
  } finally {
    await admin.disconnect();
  }
}

async function missingOf(admin: KafkaAdminClient, topics: readonly string[]): Promise<string[]> {
  const missing: string[] = [];
  for (const topic of topics) if (!(await exists(admin, topic))) missing.push(topic);
  return missing;
}

/** kafkajs resolves with an object, the other client with a list. Both throw for an unknown topic. */
async function topicsOf(
  admin: KafkaAdminClient,
  topics: string[],
): Promise<readonly TopicMetadata[]> {
  const found = await admin.fetchTopicMetadata({ topics });
  if (Array.isArray(found)) return found as TopicMetadata[];
  return (found as { readonly topics: readonly TopicMetadata[] }).topics;
}

async function exists(admin: KafkaAdminClient, topic: string): Promise<boolean> {
  try {
    const known = await topicsOf(admin, [topic]);
    return known.some(({ name, partitions }) => name === topic && partitions.length > 0);
  } catch (error) {
    if (/UNKNOWN_TOPIC|does not host this topic|unknown topic/iu.test(String(error))) return false;
    throw error;
  }
}
