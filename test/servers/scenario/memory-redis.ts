/**
 * Memory Redis: as much of a Redis in memory as the adapter for streams uses, with the interface of
 * ioredis: streams, groups with their pending entries, idle times and delivery counts, blocking reads,
 * and what the adapter's scripts do. `redis-streams.test.ts` runs the same tests with it and with a real
 * Redis.
 */
import type { TimeSource } from "@redrive/core";
import { Heap } from "./heap.ts";

interface Entry {
  readonly id: string;
  /** In the order of the ids. */
  readonly order: number;
  readonly fields: readonly string[];
}

interface Pending {
  readonly entry: Entry;
  consumer: string;
  deliveredAt: number;
  count: number;
}

interface Group {
  /** The order of the entry that was delivered last. */
  last: number;
  readonly pending: Map<string, Pending>;
}

interface Stream {
  readonly byId: Map<string, Entry>;
  /** Entries that some group has not read, and a few others. */
  log: Entry[];
  order: number;
  readonly groups: Map<string, Group>;
  readonly readers: Set<() => boolean>;
}

interface Delayed {
  readonly member: string;
  readonly dueAt: number;
  readonly fields: readonly string[];
}

type Reply = unknown;
type Pairs = readonly (readonly [id: string, fields: readonly string[]])[];

const LATENCY_MS = 1;

const ID_FIELD = "redrive-id";
const STATE_FIELD = "redrive-state";
const REASON_FIELD = "redrive-reason";
const OWN: ReadonlySet<string> = new Set([ID_FIELD, STATE_FIELD, REASON_FIELD]);

/** Entries that every group has read are forgotten in steps of this many. */
const FORGET = 10_000;

export class MemoryRedis {
  readonly #time: TimeSource;
  readonly #streams = new Map<string, Stream>();
  readonly #delayed = new Map<string, Heap<Delayed>>();
  /** Scripts by their hash, which is their number. */
  readonly #scripts: string[] = [];
  #clients = 0;
  readonly #unblock = new Map<number, () => void>();
  #isDown = false;
  /** Commands by their name. */
  readonly commands = new Map<string, number>();

  constructor(time: TimeSource) {
    this.#time = time;
  }

  client(): MemoryRedisClient {
    return new MemoryRedisClient(this, ++this.#clients);
  }

  /** Commands fail until `restart`. Blocking reads end with an error. */
  stop(): void {
    this.#isDown = true;
    for (const end of [...this.#unblock.values()]) end();
  }

  restart(): void {
    this.#isDown = false;
  }

  size(key: string): number {
    return this.#streams.get(key)?.byId.size ?? 0;
  }

  delayedSize(key: string): number {
    return this.#delayed.get(key)?.size ?? 0;
  }

  pendingSize(key: string, group: string): number {
    return this.#streams.get(key)?.groups.get(group)?.pending.size ?? 0;
  }

  /** Entries that the group has not read. */
  lag(key: string, group: string): number {
    const stream = this.#stream(key);
    return stream.order - (stream.groups.get(group)?.last ?? 0);
  }

  entries(key: string): Pairs {
    return [...this.#stream(key).byId.values()].map(({ id, fields }) => [id, fields]);
  }

  xadd(key: string, fields: readonly string[]): string {
    const stream = this.#stream(key);
    const order = ++stream.order;
    const entry: Entry = { id: `${this.#time.now()}-${order}`, order, fields };
    stream.byId.set(entry.id, entry);
    stream.log.push(entry);
    for (const read of stream.readers) if (read()) break;
    return entry.id;
  }

  /** Runs a command of a client, after its latency. */
  async run(client: number, command: string, args: readonly string[]): Promise<Reply> {
    this.commands.set(command, (this.commands.get(command) ?? 0) + 1);
    await new Promise<void>((resolve) => void this.#time.alarm(LATENCY_MS, resolve));
    if (this.#isDown) throw new Error("Connection is closed.");
    switch (command) {
      case "XREADGROUP":
        return this.#readGroup(client, args);
      case "XGROUP":
        return this.#createGroup(args);
      case "XACK":
        return this.#ack(args[0] ?? "", args[1] ?? "", args.slice(2));
      case "CLIENT":
        return this.#client(client, args);
      case "SCRIPT":
        return String(this.#scripts.push(args[1] ?? "") - 1);
      case "EVALSHA":
        return this.#script(this.#scripts[Number(args[0])] ?? "", args.slice(1));
      case "EVAL":
        return this.#script(args[0] ?? "", args.slice(1));
      default:
        throw new Error(`ERR unknown command '${command}'`);
    }
  }

  #client(client: number, [action, id]: readonly string[]): Reply {
    if (action === "ID") return client;
    this.#unblock.get(Number(id))?.();
    return 1;
  }

  #stream(key: string): Stream {
    const found = this.#streams.get(key);
    if (found !== undefined) return found;
    const created = {
      byId: new Map<string, Entry>(),
      log: [],
      order: 0,
      groups: new Map<string, Group>(),
      readers: new Set<() => boolean>(),
    };
    this.#streams.set(key, created);
    return created;
  }

  #group(key: string, name: string): Group {
    const group = this.#streams.get(key)?.groups.get(name);
    if (group === undefined) throw new Error(`NOGROUP No such key '${key}' or group '${name}'`);
    return group;
  }

  #createGroup([, key = "", name = "", start]: readonly string[]): Reply {
    const { groups, order } = this.#stream(key);
    if (groups.has(name)) throw new Error("BUSYGROUP Consumer Group name already exists");
    groups.set(name, { last: start === "$" ? order : 0, pending: new Map() });
    return "OK";
  }

  #ack(key: string, group: string, ids: readonly string[]): number {
    const { pending } = this.#group(key, group);
    return ids.filter((id) => pending.delete(id)).length;
  }

  async #readGroup(client: number, args: readonly string[]): Promise<Reply> {
    const [, group = "", consumer = "", , count, , block] = args;
    const key = args.at(-2) ?? "";
    const read = () => this.#read(key, group, consumer, Number(count));
    const found = read();
    if (found.length > 0) return [[key, found]];
    const entries = await this.#block(client, this.#stream(key), read, Number(block));
    if (this.#isDown) throw new Error("Connection is closed.");
    return entries.length === 0 ? null : [[key, entries]];
  }

  #block(client: number, stream: Stream, read: () => Pairs, blockMs: number): Promise<Pairs> {
    return new Promise((resolve) => {
      const end = (entries: Pairs) => {
        stream.readers.delete(tryRead);
        this.#unblock.delete(client);
        cancel();
        resolve(entries);
      };
      const tryRead = () => {
        const entries = read();
        if (entries.length > 0) end(entries);
        return entries.length > 0;
      };
      const cancel = this.#time.alarm(blockMs, () => end([]), true);
      this.#unblock.set(client, () => end([]));
      stream.readers.add(tryRead);
    });
  }

  #read(key: string, name: string, consumer: string, count: number): Pairs {
    const stream = this.#stream(key);
    const group = this.#group(key, name);
    const { log } = stream;
    const first = log[0]?.order ?? 0;
    const found: Entry[] = [];
    let at = Math.max(0, group.last + 1 - first);
    for (; at < log.length && found.length < count; at++) {
      const entry = log[at] as Entry;
      group.last = entry.order;
      // Deleted entries are not delivered.
      if (stream.byId.has(entry.id)) found.push(entry);
    }
    if (at > FORGET && stream.groups.size === 1) stream.log = log.slice(at);
    for (const entry of found) this.#deliver(group, entry, consumer, 1);
    return found.map(({ id, fields }) => [id, fields]);
  }

  #deliver({ pending }: Group, entry: Entry, consumer: string, count: number): void {
    pending.set(entry.id, { entry, consumer, deliveredAt: this.#time.now(), count });
  }

  /** What the adapter's scripts do. Each is known by a command that only it uses. */
  #script(text: string, [keyCount = "0", ...rest]: readonly string[]): Reply {
    const keys = rest.slice(0, Number(keyCount));
    const args = rest.slice(Number(keyCount));
    if (text.includes("cmsgpack.pack(")) return this.#delay(keys, args);
    if (text.includes("'MAXLEN'")) return this.#deadLetter(keys, args);
    if (text.includes("cmsgpack.unpack(")) return this.#takeDue(keys, args);
    if (text.includes("'XAUTOCLAIM'")) return this.#claimIdle(keys, args);
    if (text.includes("'XCLAIM'")) return this.#renew(keys, args);
    if (text.includes("'DELCONSUMER'") || text.includes("'MINID'")) return null;
    return this.#ackRetried(keys, args);
  }

  #ownFields(source: string, args: readonly string[], isRetry: boolean, from: number) {
    const [group = "", consumer = "", id = ""] = args;
    const pending = this.#group(source, group).pending.get(id);
    const entry = this.#stream(source).byId.get(id);
    if (pending?.consumer !== consumer && (entry || isRetry)) return "lost";
    if (entry === undefined && args.length < from) return "trimmed";
    const fields = entry?.fields ?? args.slice(from - 1);
    return fields.flatMap((name, index) =>
      index % 2 === 0 && !OWN.has(name) ? [name, fields[index + 1] ?? ""] : [],
    );
  }

  #finish(source: string, group: string, id: string, isRetry: boolean): "moved" {
    this.#ack(source, group, [id]);
    if (isRetry) this.#stream(source).byId.delete(id);
    return "moved";
  }

  #delay([source = "", delayed = ""]: readonly string[], args: readonly string[]): Reply {
    const [group = "", , entry = "", dueAt, id = "", state = "", flag] = args;
    const fields = this.#ownFields(source, args, flag === "1", 8);
    if (typeof fields === "string") return fields;
    const heap = this.#delayed.get(delayed) ?? new Heap<Delayed>((a, b) => a.dueAt < b.dueAt);
    this.#delayed.set(delayed, heap);
    const own = [...fields, ID_FIELD, id, STATE_FIELD, state];
    heap.push({ member: `${flag}${entry}`, dueAt: Number(dueAt), fields: own });
    return this.#finish(source, group, entry, flag === "1");
  }

  #deadLetter([source = "", dead = ""]: readonly string[], args: readonly string[]): Reply {
    const [group = "", , entry = "", , id = "", state = "", flag, reason = ""] = args;
    const fields = this.#ownFields(source, args, flag === "1", 9);
    if (typeof fields === "string") return fields;
    this.xadd(dead, [...fields, ID_FIELD, id, STATE_FIELD, state, REASON_FIELD, reason]);
    return this.#finish(source, group, entry, flag === "1");
  }

  #takeDue([delayed = "", , retry = ""]: readonly string[], args: readonly string[]): Reply {
    const [group = "", consumer = "", now, count] = args;
    const heap = this.#delayed.get(delayed);
    for (let moved = 0; moved < Number(count); moved++) {
      if ((heap?.first()?.dueAt ?? Number.POSITIVE_INFINITY) > Number(now)) break;
      this.xadd(retry, heap?.pop()?.fields ?? []);
    }
    const first = heap?.first();
    const entries = this.#read(retry, group, consumer, Number(count));
    return [entries, first === undefined ? "" : String(first.dueAt)];
  }

  #claimIdle([source = ""]: readonly string[], args: readonly string[]): Reply {
    const [group = "", consumer = "", idleMs, , count] = args;
    const { pending } = this.#group(source, group);
    const entries: [string, readonly string[]][] = [];
    const deliveries: number[] = [];
    for (const one of pending.values()) {
      if (entries.length >= Number(count)) break;
      if (this.#time.now() - one.deliveredAt < Number(idleMs)) continue;
      one.consumer = consumer;
      one.deliveredAt = this.#time.now();
      one.count++;
      entries.push([one.entry.id, one.entry.fields]);
      deliveries.push(one.count);
    }
    return ["0-0", entries, deliveries];
  }

  #renew([source = ""]: readonly string[], [group = "", consumer, ...ids]: readonly string[]) {
    const { pending } = this.#group(source, group);
    for (const id of ids) {
      const one = pending.get(id);
      if (one !== undefined && one.consumer === consumer) one.deliveredAt = this.#time.now();
    }
    return null;
  }

  #ackRetried([source = ""]: readonly string[], [group = "", ...ids]: readonly string[]): Reply {
    for (const id of ids) this.#finish(source, group, id, true);
    return null;
  }
}

/** As much of ioredis as the adapter uses. */
export class MemoryRedisClient {
  readonly #redis: MemoryRedis;
  readonly #id: number;

  constructor(redis: MemoryRedis, id: number) {
    this.#redis = redis;
    this.#id = id;
  }

  call(command: string, ...args: string[]): Promise<Reply> {
    return this.#redis.run(this.#id, command, args);
  }

  duplicate(): MemoryRedisClient {
    return this.#redis.client();
  }

  disconnect(): void {}

  on(): this {
    return this;
  }
}
