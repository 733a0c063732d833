/**
 * Kafka: a small broker that speaks Kafka's protocol over TCP, as far as clients with consumer groups use it:
 * produce, fetch, topics, offsets and the group coordinator. One node, logs in memory. The tests run the real
 * clients against it, because no real Kafka can be installed with npm or apt. `stop` and `start` are a
 * restart: logs and committed offsets stay, members must join again.
 */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createServer, type Server, type Socket } from "node:net";
import {
  recordsOf,
  type StoredBatch,
  storeBatches,
  WireReader,
  type WireRecord,
  WireWriter,
} from "./kafka-wire.ts";

/** Error codes of the protocol. */
const NONE = 0;
const OFFSET_OUT_OF_RANGE = 1;
const UNKNOWN_TOPIC = 3;
const ILLEGAL_GENERATION = 22;
const UNKNOWN_MEMBER = 25;
const REBALANCING = 27;
const UNSUPPORTED_VERSION = 35;
const TOPIC_EXISTS = 36;

const NODE = 1;
const HOST = "127.0.0.1";

/** The requests that it answers, with the lowest and the highest version. */
const APIS = {
  produce: [0, 3, 3],
  fetch: [1, 4, 4],
  listOffsets: [2, 1, 1],
  metadata: [3, 1, 1],
  offsetCommit: [8, 2, 2],
  offsetFetch: [9, 1, 1],
  findCoordinator: [10, 0, 0],
  joinGroup: [11, 1, 1],
  heartbeat: [12, 0, 0],
  leaveGroup: [13, 0, 0],
  syncGroup: [14, 0, 0],
  apiVersions: [18, 0, 2],
  createTopics: [19, 0, 4],
} as const;

type Api = keyof typeof APIS;

const API_BY_KEY = new Map(
  Object.entries(APIS).map(([name, [key]]) => [key as number, name as Api]),
);

interface Request {
  readonly version: number;
  readonly reader: WireReader;
}

/** A group that is new waits for this time, so that members that start together join together. */
const FIRST_JOIN_MS = 50;

export class KafkaServer {
  /** How often each request was answered. */
  readonly requests: Record<string, number> = {};
  readonly #topics = new Map<string, StoredBatch[][]>();
  readonly #groups = new Map<string, Group>();
  readonly #sockets = new Set<Socket>();
  readonly #waiting = new Set<() => void>();
  #server: Server | undefined;
  #port = 0;

  async start(): Promise<void> {
    const server = createServer((socket) => this.#serve(socket));
    server.listen(this.#port, HOST);
    await once(server, "listening");
    this.#server = server;
    this.#port = (server.address() as AddressInfo).port;
  }

  /** All connections end at once. Members of groups are forgotten. */
  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    for (const group of this.#groups.values()) group.forgetMembers();
    for (const socket of this.#sockets) socket.destroy();
    for (const wake of this.#waiting) wake();
    server?.close();
    if (server?.listening) await once(server, "close");
  }

  get address(): string {
    return `${HOST}:${this.#port}`;
  }

  createTopic(name: string, partitions: number): void {
    this.#topics.set(
      name,
      Array.from({ length: partitions }, () => []),
    );
  }

  deleteTopic(name: string): void {
    this.#topics.delete(name);
  }

  get topics(): readonly string[] {
    return [...this.#topics.keys()];
  }

  records(topic: string): WireRecord[] {
    return (this.#topics.get(topic) ?? []).flat().flatMap(recordsOf);
  }

  /** Records of a topic that the group has not committed. */
  lag(group: string, topic: string): number {
    const logs = this.#topics.get(topic) ?? [];
    const committed = this.#groups.get(group)?.offsets;
    return logs.reduce(
      (sum, log, partition) => sum + endOf(log) - (committed?.get(`${topic}/${partition}`) ?? 0),
      0,
    );
  }

  /** Members that have partitions; 0 during a rebalance. */
  membersOf(group: string): number {
    return this.#groups.get(group)?.size ?? 0;
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => this.#sockets.delete(socket));
    let buffered = Buffer.alloc(0);
    // Answers have the order of the requests of their connection.
    let previous: Promise<unknown> = Promise.resolve();
    socket.on("data", (chunk: Buffer) => {
      buffered = Buffer.concat([buffered, chunk]);
      while (buffered.length >= 4 && buffered.length >= 4 + buffered.readInt32BE(0)) {
        const size = buffered.readInt32BE(0);
        const answer = this.#answer(buffered.subarray(4, 4 + size));
        buffered = buffered.subarray(4 + size);
        previous = previous.then(async () => {
          const bytes = await answer;
          if (bytes !== undefined && !socket.destroyed) socket.write(bytes);
        });
      }
    });
  }

  async #answer(bytes: Buffer): Promise<Buffer | undefined> {
    const reader = new WireReader(bytes);
    const [key, version, correlation] = [reader.int16(), reader.int16(), reader.int32()];
    reader.nullableText();
    const api = API_BY_KEY.get(key);
    if (api === undefined) throw new Error(`no answer to request ${key}`);
    this.requests[api] = (this.requests[api] ?? 0) + 1;
    const body = await this.#run(api, { version, reader });
    if (body === undefined) return undefined;
    const head = new WireWriter().int32(4 + body.length).int32(correlation);
    return Buffer.concat([head.done(), body]);
  }

  #run(api: Api, request: Request): Buffer | undefined | Promise<Buffer | undefined> {
    switch (api) {
      case "apiVersions":
        return apiVersions(request);
      case "metadata":
        return this.#metadata(request);
      case "createTopics":
        return this.#createTopics(request);
      case "produce":
        return this.#produce(request);
      case "fetch":
        return this.#fetch(request);
      case "listOffsets":
        return this.#listOffsets(request);
      case "findCoordinator":
        return new WireWriter().int16(NONE).int32(NODE).text(HOST).int32(this.#port).done();
      default:
        return this.#groupRequest(api, request);
    }
  }

  #groupRequest(
    api: Exclude<Api, "apiVersions" | "metadata" | "produce" | "fetch">,
    { reader }: Request,
  ): Buffer | Promise<Buffer> {
    const group = this.#group(reader.text());
    switch (api) {
      case "joinGroup":
        return group.join(reader);
      case "syncGroup":
        return group.sync(reader);
      case "heartbeat":
        return errorOnly(group.heartbeat(reader.int32(), reader.text()));
      case "leaveGroup":
        return errorOnly(group.leave(reader.text()));
      case "offsetCommit":
        return group.commit(reader);
      default:
        return group.fetchOffsets(reader);
    }
  }

  #group(name: string): Group {
    const found = this.#groups.get(name) ?? new Group(name);
    this.#groups.set(name, found);
    return found;
  }

  #metadata({ reader }: Request): Buffer {
    const asked = reader.int32();
    const names = asked < 0 ? this.topics : Array.from({ length: asked }, () => reader.text());
    const writer = new WireWriter();
    writer.array([NODE], (node) => {
      writer.int32(node).text(HOST).int32(this.#port).text(null);
    });
    writer.int32(NODE);
    writer.array(names, (name) => {
      const logs = this.#topics.get(name);
      writer
        .int16(logs === undefined ? UNKNOWN_TOPIC : NONE)
        .text(name)
        .int8(0);
      writer.array([...(logs ?? []).keys()], (partition) => {
        writer.int16(NONE).int32(partition).int32(NODE);
        writer.array([NODE], (node) => writer.int32(node));
        writer.array([NODE], (node) => writer.int32(node));
      });
    });
    return writer.done();
  }

  #createTopics({ reader, version }: Request): Buffer {
    const asked = reader.array(() => {
      const topic = { name: reader.text(), partitions: reader.int32() };
      reader.int16();
      reader.array(() => [reader.int32(), reader.array(() => reader.int32())]);
      reader.array(() => [reader.text(), reader.nullableText()]);
      return topic;
    });
    const writer = new WireWriter();
    if (version >= 2) writer.int32(0);
    writer.array(asked, ({ name, partitions }) => {
      const isNew = !this.#topics.has(name);
      if (isNew) this.createTopic(name, Math.max(1, partitions));
      writer.text(name).int16(isNew ? NONE : TOPIC_EXISTS);
      if (version >= 1) writer.text(null);
    });
    return writer.done();
  }

  #produce({ reader }: Request): Buffer | undefined {
    reader.nullableText();
    const acks = reader.int16();
    reader.int32();
    const writer = new WireWriter();
    const topics = reader.array(() => ({
      topic: reader.text(),
      partitions: reader.array(() => ({ partition: reader.int32(), records: reader.bytes() })),
    }));
    writer.array(topics, ({ topic, partitions }) => {
      writer.text(topic).array(partitions, ({ partition, records }) => {
        const log = this.#topics.get(topic)?.[partition];
        const baseOffset = log === undefined ? -1 : endOf(log);
        if (log && records) log.push(...storeBatches(records, baseOffset));
        writer.int32(partition).int16(log === undefined ? UNKNOWN_TOPIC : NONE);
        writer.int64(baseOffset).int64(-1);
      });
    });
    for (const wake of this.#waiting) wake();
    return acks === 0 ? undefined : writer.int32(0).done();
  }

  async #fetch({ reader }: Request): Promise<Buffer> {
    reader.int32();
    const maxWaitMs = reader.int32();
    reader.int32();
    reader.int32();
    reader.int8();
    const topics = reader.array(() => ({
      topic: reader.text(),
      partitions: reader.array(() => ({
        partition: reader.int32(),
        offset: reader.int64(),
        maxBytes: reader.int32(),
      })),
    }));
    const hasNews = () =>
      topics.some(({ topic, partitions }) =>
        partitions.some(({ partition, offset }) => {
          const log = this.#topics.get(topic)?.[partition];
          return log === undefined || endOf(log) !== offset;
        }),
      );
    if (!hasNews()) await this.#news(maxWaitMs);
    const writer = new WireWriter().int32(0);
    writer.array(topics, ({ topic, partitions }) => {
      writer.text(topic).array(partitions, ({ partition, offset, maxBytes }) => {
        this.#writeLog(writer, topic, partition, offset, maxBytes);
      });
    });
    return writer.done();
  }

  /** Resolves when something is written, or after this time. */
  #news(maxWaitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, maxWaitMs);
      this.#waiting.add(wake);
    });
  }

  #writeLog(
    writer: WireWriter,
    topic: string,
    partition: number,
    offset: number,
    maxBytes: number,
  ): void {
    const log = this.#topics.get(topic)?.[partition];
    const end = log === undefined ? -1 : endOf(log);
    const known = offset >= 0 && offset <= end ? NONE : OFFSET_OUT_OF_RANGE;
    writer.int32(partition).int16(log === undefined ? UNKNOWN_TOPIC : known);
    writer.int64(end).int64(end).int32(-1);
    const found: Buffer[] = [];
    let size = 0;
    for (const { lastOffset, bytes } of known === NONE ? (log ?? []) : []) {
      if (lastOffset < offset) continue;
      if (size > 0 && size + bytes.length > maxBytes) break;
      found.push(bytes);
      size += bytes.length;
    }
    writer.bytes(Buffer.concat(found));
  }

  #listOffsets({ reader }: Request): Buffer {
    reader.int32();
    const writer = new WireWriter();
    const topics = reader.array(() => ({
      topic: reader.text(),
      partitions: reader.array(() => ({ partition: reader.int32(), time: reader.int64() })),
    }));
    return writer
      .array(topics, ({ topic, partitions }) => {
        writer.text(topic).array(partitions, ({ partition, time }) => {
          const log = this.#topics.get(topic)?.[partition];
          writer
            .int32(partition)
            .int16(log === undefined ? UNKNOWN_TOPIC : NONE)
            .int64(-1);
          // -2 asks for the oldest record, anything else here for the end.
          writer.int64(time === -2 || log === undefined ? 0 : endOf(log));
        });
      })
      .done();
  }
}

function endOf(log: readonly StoredBatch[]): number {
  return (log.at(-1)?.lastOffset ?? -1) + 1;
}

function errorOnly(code: number): Buffer {
  return new WireWriter().int16(code).done();
}

/** A client that asks in a newer version gets the versions in the oldest encoding, and asks again. */
function apiVersions({ version }: Request): Buffer {
  const writer = new WireWriter().int16(version > 2 ? UNSUPPORTED_VERSION : NONE);
  writer.array(Object.values(APIS), ([key, min, max]) => {
    writer.int16(key).int16(min).int16(max);
  });
  return version === 1 || version === 2 ? writer.int32(0).done() : writer.done();
}

interface Member {
  readonly id: string;
  readonly sessionMs: number;
  readonly rebalanceMs: number;
  protocols: readonly { readonly name: string; readonly metadata: Buffer }[];
  join: ((answer: Buffer) => void) | undefined;
  sync: ((answer: Buffer) => void) | undefined;
  session: NodeJS.Timeout | undefined;
  assignment: Buffer;
}

/** A consumer group: its members, their rebalances, and its offsets. */
class Group {
  readonly offsets = new Map<string, number>();
  readonly #name: string;
  readonly #members = new Map<string, Member>();
  #state: "stable" | "preparing" | "completing" = "stable";
  #generation = 0;
  #leader = "";
  #ids = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(name: string) {
    this.#name = name;
  }

  get size(): number {
    return this.#state === "stable" ? this.#members.size : 0;
  }

  forgetMembers(): void {
    clearTimeout(this.#timer);
    for (const { session } of this.#members.values()) clearTimeout(session);
    this.#members.clear();
    this.#state = "stable";
  }

  join(reader: WireReader): Promise<Buffer> {
    const [sessionMs, rebalanceMs, given] = [reader.int32(), reader.int32(), reader.text()];
    reader.text();
    const protocols = reader.array(() => ({
      name: reader.text(),
      metadata: reader.bytes() ?? Buffer.alloc(0),
    }));
    if (given !== "" && !this.#members.has(given)) {
      return Promise.resolve(joinAnswer(UNKNOWN_MEMBER, -1, "", "", given, []));
    }
    const id = given === "" ? `${this.#name}-${++this.#ids}` : given;
    const member: Member = this.#members.get(id) ?? {
      id,
      sessionMs,
      rebalanceMs,
      protocols,
      join: undefined,
      sync: undefined,
      session: undefined,
      assignment: Buffer.alloc(0),
    };
    const isFirst = this.#members.size === 0;
    this.#members.set(id, member);
    member.protocols = protocols;
    clearTimeout(member.session);
    return new Promise((resolve) => {
      member.join = resolve;
      this.#prepare(isFirst);
    });
  }

  /** All members must join again, in time. */
  #prepare(isFirst = false): void {
    if (this.#state !== "preparing") {
      this.#state = "preparing";
      for (const member of this.#members.values()) {
        member.sync?.(syncAnswer(REBALANCING));
        member.sync = undefined;
      }
      clearTimeout(this.#timer);
      const waits = [...this.#members.values()].map(({ rebalanceMs }) => rebalanceMs);
      const waitMs = isFirst ? FIRST_JOIN_MS : Math.max(0, ...waits);
      this.#timer = setTimeout(() => this.#complete(), waitMs);
      if (isFirst) return;
    }
    const members = [...this.#members.values()];
    if (this.#generation > 0 && members.every(({ join }) => join !== undefined)) this.#complete();
  }

  #complete(): void {
    clearTimeout(this.#timer);
    for (const [id, { join }] of this.#members) if (join === undefined) this.#members.delete(id);
    if (this.#members.size === 0) {
      this.#state = "stable";
      return;
    }
    this.#generation++;
    this.#state = "completing";
    const members = [...this.#members.values()];
    const [first] = members;
    this.#leader = first?.id ?? "";
    const protocol = first?.protocols[0]?.name ?? "";
    for (const member of members) {
      const all = member.id === this.#leader ? members : [];
      const own = all.map(({ id, protocols }) => {
        const chosen = protocols.find(({ name }) => name === protocol);
        return { id, metadata: chosen?.metadata ?? Buffer.alloc(0) };
      });
      member.join?.(joinAnswer(NONE, this.#generation, protocol, this.#leader, member.id, own));
      member.join = undefined;
      this.#watch(member);
    }
  }

  #watch(member: Member): void {
    clearTimeout(member.session);
    member.session = setTimeout(() => {
      this.#members.delete(member.id);
      this.#prepare();
      this.#completeIfReady();
    }, member.sessionMs);
  }

  #completeIfReady(): void {
    const members = [...this.#members.values()];
    if (members.every(({ join }) => join !== undefined)) this.#complete();
  }

  sync(reader: WireReader): Buffer | Promise<Buffer> {
    const [generation, id] = [reader.int32(), reader.text()];
    const assignments = reader.array(
      () => [reader.text(), reader.bytes() ?? Buffer.alloc(0)] as const,
    );
    const member = this.#members.get(id);
    const problem = this.#problemOf(generation, id);
    if (member === undefined || problem !== NONE) return syncAnswer(problem);
    if (this.#state === "preparing") return syncAnswer(REBALANCING);
    if (this.#state === "stable") return syncAnswer(NONE, member.assignment);
    return new Promise((resolve) => {
      member.sync = resolve;
      if (id === this.#leader) this.#assign(new Map(assignments));
    });
  }

  #assign(assignments: ReadonlyMap<string, Buffer>): void {
    this.#state = "stable";
    for (const member of this.#members.values()) {
      member.assignment = assignments.get(member.id) ?? Buffer.alloc(0);
      member.sync?.(syncAnswer(NONE, member.assignment));
      member.sync = undefined;
    }
  }

  #problemOf(generation: number, id: string): number {
    if (!this.#members.has(id)) return UNKNOWN_MEMBER;
    return generation === this.#generation ? NONE : ILLEGAL_GENERATION;
  }

  heartbeat(generation: number, id: string): number {
    const member = this.#members.get(id);
    const problem = this.#problemOf(generation, id);
    if (member === undefined || problem !== NONE) return problem;
    this.#watch(member);
    return this.#state === "preparing" ? REBALANCING : NONE;
  }

  leave(id: string): number {
    const member = this.#members.get(id);
    if (member === undefined) return UNKNOWN_MEMBER;
    clearTimeout(member.session);
    this.#members.delete(id);
    this.#prepare();
    this.#completeIfReady();
    return NONE;
  }

  commit(reader: WireReader): Buffer {
    const [generation, id] = [reader.int32(), reader.text()];
    reader.int64();
    const known = this.#problemOf(generation, id);
    const problem = known === NONE && this.#state === "completing" ? REBALANCING : known;
    const writer = new WireWriter();
    const topics = reader.array(() => ({
      topic: reader.text(),
      partitions: reader.array(() => {
        const place = { partition: reader.int32(), offset: reader.int64() };
        reader.nullableText();
        return place;
      }),
    }));
    return writer
      .array(topics, ({ topic, partitions }) => {
        writer.text(topic).array(partitions, ({ partition, offset }) => {
          if (problem === NONE) this.offsets.set(`${topic}/${partition}`, offset);
          writer.int32(partition).int16(problem);
        });
      })
      .done();
  }

  fetchOffsets(reader: WireReader): Buffer {
    const writer = new WireWriter();
    const topics = reader.array(() => ({
      topic: reader.text(),
      partitions: reader.array(() => reader.int32()),
    }));
    return writer
      .array(topics, ({ topic, partitions }) => {
        writer.text(topic).array(partitions, (partition) => {
          const offset = this.offsets.get(`${topic}/${partition}`) ?? -1;
          writer.int32(partition).int64(offset).text("").int16(NONE);
        });
      })
      .done();
  }
}

interface JoinedMember {
  readonly id: string;
  readonly metadata: Buffer;
}

function joinAnswer(
  code: number,
  generation: number,
  protocol: string,
  leader: string,
  id: string,
  members: readonly JoinedMember[],
): Buffer {
  const writer = new WireWriter()
    .int16(code)
    .int32(generation)
    .text(protocol)
    .text(leader)
    .text(id);
  return writer
    .array(members, (member) => {
      writer.text(member.id).bytes(member.metadata);
    })
    .done();
}

function syncAnswer(code: number, assignment: Buffer = Buffer.alloc(0)): Buffer {
  return new WireWriter().int16(code).bytes(assignment).done();
}
