/**
 * Redis Streams: consumes the messages of a consumer group with the caller's own client. A message
 * stays pending in Redis until one script carries its disposition out, so a consumer can be killed at
 * any time and nothing is lost. The worker reads messages as far as the consumer has slots, and repeats
 * what keeps a group healthy: it takes delayed messages that are due, takes over messages of consumers
 * that died, and shows that it works on its own.
 */
import {
  booleanRule,
  type Clock,
  checkFields,
  DocumentError,
  type Fields,
  invalidArgument,
  numberRule,
  type Rule,
  systemId,
  textRule,
} from "@redrive/core";
import type { Consumer } from "./consumer.ts";
import { LiveList, type LiveMember } from "./live-list.ts";
import { type Disposition, decodeState, encodeState, type Message } from "./message.ts";
import { RepeatingTask, type Worker, WorkerState } from "./worker.ts";

export interface RedisStreamsOptions {
  /** A client of ioredis (5 or later) or node-redis (4 or later). The worker also makes a copy of it. */
  readonly client: RedisClient;
  readonly stream: string;
  readonly group: string;
  /** Name of this process in the group. Must be unique. Default: a random id. */
  readonly consumerName?: string | undefined;
  /** Where a new group starts: `0`, the oldest message, or `$`, the next one. Default: `0`. */
  readonly startId?: string | undefined;
  /** The field with the id of a message. Default: the id of its entry. */
  readonly idField?: string | undefined;
  /**
   * A message belongs to the next consumer if its own has not shown for this time that it works on it.
   * It shows this three times as often. 1 s to 1 h. Default: 60,000.
   */
  readonly idleMs?: number | undefined;
  /** How long one read waits for messages. 10 ms to 1 min. Default: 2,000. */
  readonly blockMs?: number | undefined;
  /** The stream of the dead letters. In a cluster it must be in the slot of `stream`. Default: its own. */
  readonly deadLetterStream?: string | undefined;
  /** About how many dead letters stay; older ones are removed. 0: all stay. Default: 0. */
  readonly maxDeadLetters?: number | undefined;
  /** Removes messages that every group of the stream has handled, once a minute. Default: false. */
  readonly trim?: boolean | undefined;
}

const keyRule = textRule(/^[^\s]{1,500}$/u, "1 to 500 characters without spaces");
const clientRule: Rule = (value) =>
  typeof value === "object" && value !== null ? undefined : "a client of ioredis or node-redis";

const FIELDS: Fields & Readonly<Record<keyof RedisStreamsOptions, unknown>> = {
  client: clientRule,
  stream: keyRule,
  group: keyRule,
  consumerName: keyRule,
  startId: textRule(/^(\$|\d+(-\d+)?)$/u, "an id of the stream, or $"),
  idField: keyRule,
  idleMs: numberRule(1000, 3_600_000),
  blockMs: numberRule(10, 60_000),
  deadLetterStream: keyRule,
  maxDeadLetters: numberRule(0, 1_000_000_000),
  trim: booleanRule,
};

/** Connects a consumer to a group of a stream. Use one worker per consumer. */
export function redisStreams(
  consumer: Consumer<RedisFields>,
  options: RedisStreamsOptions,
): Worker {
  const problems = checkFields(options, FIELDS);
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
  for (const name of ["client", "stream", "group"] as const) {
    if (options[name] === undefined) throw invalidArgument(`${name} is required`, options[name]);
  }
  const { stream, group, deadLetterStream, idField, consumerName = systemId() } = options;
  const keys = redisKeysOf(stream, group, deadLetterStream);
  const connection = connectionOf(options.client);
  const commands = new StreamCommands(connection, {
    keys,
    group,
    consumer: consumerName,
    idField,
  });
  return new StreamWorker({
    consumer,
    connection,
    commands,
    startId: options.startId ?? "0",
    idleMs: options.idleMs ?? 60_000,
    blockMs: options.blockMs ?? 2000,
    maxDeadLetters: options.maxDeadLetters ?? 0,
    trims: options.trim ?? false,
  });
}

interface StreamWorkerParts {
  readonly consumer: Consumer<RedisFields>;
  readonly connection: RedisConnection;
  readonly commands: StreamCommands;
  readonly startId: string;
  readonly idleMs: number;
  readonly blockMs: number;
  readonly maxDeadLetters: number;
  readonly trims: boolean;
}

/** Messages that another process has delayed are noticed after this time at the latest. */
const DUE_CHECK_MS = 1000;
const TRIM_MS = 60_000;

/** How often a read that does not end is ended again. */
const UNBLOCK_MS = 20;

class StreamWorker implements Worker {
  readonly #parts: StreamWorkerParts;
  readonly #state: WorkerState;
  readonly #acks: AckBatch;
  readonly #due: RepeatingTask;
  readonly #tasks: readonly RepeatingTask[];

  // Mutable state.
  #blocking: RedisConnection | undefined;
  #blockingId: unknown;
  /** Slots that the current read may fill. */
  #reserved = 0;
  /** The latest read found less than it had slots for: the next one waits for messages. */
  #isDrained = false;
  /** More messages are due than there were slots. */
  #isDue = false;
  #isTurnOfDue = false;
  #reading: Promise<void> = Promise.resolve();
  #onRoom: (() => void) | undefined;
  #ignoreLimit: () => void = () => undefined;
  readonly #inFlight = new LiveList<StreamEntry>();
  readonly #cursors: [fresh: string, retried: string] = ["0-0", "0-0"];

  constructor(parts: StreamWorkerParts) {
    this.#parts = parts;
    this.#state = new WorkerState(parts.consumer);
    const { consumer, commands, idleMs, trims } = parts;
    const { clock } = consumer;
    const onError = (error: unknown) => void this.#state.fail(error);
    const repeat = (everyMs: number, run: () => Promise<number | undefined>) =>
      new RepeatingTask({ clock, everyMs, run, onError });
    this.#acks = new AckBatch({
      clock,
      ack: (isRetry, ids) => commands.ack(isRetry, ids),
      onError: (error) => this.#state.fail(error),
    });
    this.#due = repeat(DUE_CHECK_MS, () => this.#takeDue());
    this.#tasks = [
      this.#due,
      repeat(Math.floor(idleMs / 2), () => this.#claimIdle()),
      repeat(Math.floor(idleMs / 3), () => this.#renew()),
      ...(trims ? [repeat(TRIM_MS, async () => void (await commands.trim()))] : []),
    ];
  }

  async start(): Promise<void> {
    const { commands, connection, consumer, startId } = this.#parts;
    await commands.createGroups(startId);
    this.#blocking = await connection.duplicate();
    for (const task of this.#tasks) task.start();
    this.#ignoreLimit = consumer.onLimit(() => {
      this.#wake();
      this.#due.runWithin(0);
    });
    this.#reading = this.#read(this.#blocking);
    this.#due.runWithin(0);
    // After a crash of the whole fleet, nobody else takes over what it had.
    await this.#claimIdle();
  }

  async stop(drainMs?: number): Promise<void> {
    const { consumer, commands } = this.#parts;
    const isFirst = !this.#state.isStopping;
    this.#state.stop();
    this.#ignoreLimit();
    this.#onRoom?.();
    if (isFirst) await this.#endRead();
    await this.#reading;
    await consumer.stop(drainMs);
    await Promise.all([this.#state.idle(), ...this.#tasks.map((task) => task.stop())]);
    await this.#acks.flush();
    if (!isFirst) return;
    await commands.leave().catch(() => undefined);
    this.#blocking?.close();
  }

  /**
   * Ends the read that waits for messages; it would wait for `blockMs`. A read that Redis has not
   * received yet is not ended by one command, so the command is repeated.
   */
  async #endRead(): Promise<void> {
    const { connection, consumer } = this.#parts;
    let isReading = true;
    const ended = this.#reading.then(() => {
      isReading = false;
    });
    while (isReading && this.#blockingId !== undefined) {
      await connection.send("CLIENT", "UNBLOCK", String(this.#blockingId)).catch(() => undefined);
      await Promise.race([ended, consumer.clock.sleep(UNBLOCK_MS)]);
    }
  }

  /** Reads new messages until the worker stops. */
  async #read(blocking: RedisConnection): Promise<void> {
    const { commands, startId, blockMs } = this.#parts;
    let mustPrepare = true;
    while (!this.#state.isStopping) {
      this.#reserved = this.#roomForRead();
      if (this.#reserved === 0) {
        await this.#room();
        continue;
      }
      try {
        if (mustPrepare) {
          await commands.createGroups(startId);
          this.#blockingId = await blocking.send("CLIENT", "ID").catch(() => undefined);
          mustPrepare = false;
        }
        const entries = await commands.read(blocking, this.#reserved, blockMs);
        this.#isDrained = entries.length < this.#reserved;
        this.#isTurnOfDue = true;
        this.#state.recover();
        for (const entry of entries) void this.#handle(entry);
      } catch (error) {
        mustPrepare = true;
        if (!this.#state.isStopping) await this.#state.pause(this.#state.fail(error));
      } finally {
        this.#reserved = 0;
      }
    }
  }

  /** Resolves when a message has ended, at the end of its turn: others end with it. */
  #room(): Promise<void> {
    return new Promise((resolve) => {
      this.#onRoom = resolve;
    });
  }

  #wake(): void {
    const { clock } = this.#parts.consumer;
    const resolve = this.#onRoom;
    this.#onRoom = undefined;
    if (this.#isDue) this.#due.runWithin(0);
    if (resolve !== undefined) clock.endOfTurn(resolve);
  }

  /** While messages that come back are due, they get half of the slots; else one, if there are several. */
  #roomForRead(): number {
    const { free, freeForRetries, limit } = this.#parts.consumer;
    const forDue = this.#isDue ? Math.min(Math.ceil(free / 2), freeForRetries) : 1;
    if (limit > 1) return Math.max(0, free - forDue);
    // One slot: they take turns.
    return this.#isDue && forDue > 0 && this.#isTurnOfDue ? 0 : free;
  }

  /**
   * A read that waits for new messages keeps no slots from those that are due. What it then finds may wait
   * for a slot for a moment.
   */
  #roomForDue(): number {
    const { free, freeForRetries } = this.#parts.consumer;
    if (free === 0) return 0;
    const left = this.#isDrained ? free : Math.max(1, free - this.#reserved);
    return Math.min(freeForRetries, left);
  }

  async #takeDue(): Promise<number | undefined> {
    const { commands, consumer } = this.#parts;
    const count = this.#roomForDue();
    // `#wake` calls again.
    if (count === 0) {
      this.#isDue = true;
      return undefined;
    }
    const now = consumer.clock.now();
    const { entries, nextAt } = await commands.takeDue(now, count);
    this.#isTurnOfDue = false;
    for (const entry of entries) void this.#handle(entry);
    this.#isDue = entries.length === count && nextAt !== undefined && nextAt <= now;
    if (this.#isDue) return 0;
    return nextAt === undefined ? undefined : Math.min(DUE_CHECK_MS, Math.max(0, nextAt - now));
  }

  /**
   * If Redis has failed, its consumers could not show that they are alive. They get as long as always to
   * do so, this one included.
   */
  async #claimIdle(): Promise<undefined> {
    const { commands, idleMs } = this.#parts;
    if (this.#state.sinceFailureMs() < idleMs) return;
    await this.#renew();
    for (const isRetry of [false, true]) {
      const index = isRetry ? 1 : 0;
      const count = this.#parts.consumer.free;
      if (count === 0) return;
      const place = { cursor: this.#cursors[index], count, idleMs };
      const { cursor, entries } = await commands.claimIdle(isRetry, place);
      this.#cursors[index] = cursor;
      for (const entry of entries) void this.#handle(entry);
    }
  }

  async #renew(): Promise<undefined> {
    const { commands } = this.#parts;
    for (const isRetry of [false, true]) {
      const entries = this.#inFlight.all().filter((entry) => entry.isRetry === isRetry);
      const ids = entries.map(({ entryId }) => entryId);
      if (ids.length > 0) await commands.renew(isRetry, ids);
    }
  }

  /** Never rejects. */
  async #handle(entry: StreamEntry): Promise<void> {
    this.#state.begin();
    this.#inFlight.add(entry);
    const disposition = await this.#parts.consumer.handle(entry.message);
    if (disposition.kind === "ack") this.#acks.add(entry);
    else await this.#move(entry, disposition);
    this.#inFlight.remove(entry);
    this.#wake();
    this.#state.end();
  }

  /** Tries until Redis has moved the message. Until then it is pending, so a crash does not lose it. */
  async #move(entry: StreamEntry, disposition: Disposition): Promise<void> {
    const { clock } = this.#parts.consumer;
    const dueAt = "delayMs" in disposition ? clock.now() + disposition.delayMs : 0;
    for (;;) {
      try {
        await this.#moveOnce(entry, disposition, dueAt);
        return;
      } catch (error) {
        const delayMs = this.#state.fail(error);
        // The message is delivered again after `idleMs`.
        if (this.#state.isStopping) return;
        await this.#state.pause(delayMs);
      }
    }
  }

  async #moveOnce(entry: StreamEntry, disposition: Disposition, dueAt: number): Promise<void> {
    const { commands, maxDeadLetters, consumer } = this.#parts;
    if (disposition.kind === "ack") return;
    const state = encodeState(disposition.state);
    if (disposition.kind === "dead-letter") {
      await commands.deadLetter(entry, maxDeadLetters, state, disposition.reason);
      return;
    }
    await commands.delay(entry, dueAt, state);
    this.#due.runWithin(dueAt - consumer.clock.now());
  }
}

interface AckBatchParts {
  readonly clock: Clock;
  readonly ack: (isRetry: boolean, entryIds: readonly string[]) => Promise<void>;
  /** Reports a failure; returns the wait before the next try. */
  readonly onError: (error: unknown) => number;
}

/**
 * Acknowledges all messages that end in one turn of the event loop with one command. If Redis fails, it tries
 * again: a message whose acknowledgment is lost would be handled again.
 */
class AckBatch {
  readonly #parts: AckBatchParts;

  // Mutable state: by whether the entry is in the retry stream.
  #isScheduled = false;
  #ids: [fresh: string[], retried: string[]] = [[], []];
  #running: Promise<void> = Promise.resolve();

  constructor(parts: AckBatchParts) {
    this.#parts = parts;
  }

  add({ isRetry, entryId }: StreamEntry): void {
    this.#ids[isRetry ? 1 : 0].push(entryId);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#parts.clock.endOfTurn(() => {
      this.#isScheduled = false;
      const before = this.#running;
      this.#running = this.#flush().then(() => before);
    });
  }

  /** Sends what is left, and resolves when everything was sent or has failed once more. */
  async flush(): Promise<void> {
    await this.#running;
    await this.#flush();
  }

  async #flush(): Promise<void> {
    const [fresh, retried] = this.#ids;
    this.#ids = [[], []];
    await Promise.all([this.#send(false, fresh), this.#send(true, retried)]);
  }

  async #send(isRetry: boolean, ids: string[]): Promise<void> {
    if (ids.length === 0) return;
    const { ack, onError, clock } = this.#parts;
    try {
      await ack(isRetry, ids);
    } catch (error) {
      this.#ids[isRetry ? 1 : 0].push(...ids);
      clock.alarm(onError(error), () => void this.#flush(), true);
    }
  }
}

interface GroupPlace {
  readonly keys: RedisKeys;
  readonly group: string;
  /** Name of this consumer in the group. */
  readonly consumer: string;
  readonly idField: string | undefined;
}

/** `lost`: another consumer has claimed the entry. */
type MoveResult = "moved" | "lost";

/**
 * What the worker asks of Redis, one method per command or script, with the caller's own client (ioredis or
 * node-redis; the library imports neither), and what Redis replies.
 *
 * All keys of a group are in the cluster slot of its stream, because a script moves messages between them.
 */
export class StreamCommands {
  readonly #connection: RedisConnection;
  readonly #place: GroupPlace;
  readonly #hashes = new Map<string, string>();

  constructor(connection: RedisConnection, place: GroupPlace) {
    this.#connection = connection;
    this.#place = place;
  }

  /** Creates both streams and their groups, if they do not exist. */
  async createGroups(startId: string): Promise<void> {
    const { keys } = this.#place;
    await this.#createGroup(keys.stream, startId);
    await this.#createGroup(keys.retry, "0");
  }

  async #createGroup(key: string, startId: string): Promise<void> {
    const { group } = this.#place;
    try {
      await this.#connection.send("XGROUP", "CREATE", key, group, startId, "MKSTREAM");
    } catch (error) {
      if (!String(error).includes("BUSYGROUP")) throw error;
    }
  }

  /** New messages of the stream. Waits for the first one, at most `blockMs`. */
  async read(
    blocking: RedisConnection,
    count: number,
    blockMs: number,
  ): Promise<readonly StreamEntry[]> {
    const { group, consumer, keys, idField } = this.#place;
    const from = ["GROUP", group, consumer, "COUNT", count, "BLOCK", blockMs, "STREAMS"];
    const reply = await blocking.send("XREADGROUP", ...from, keys.stream, ">");
    return entriesIn(reply).map((entry) => entryOf(entry, false, idField));
  }

  /** Delayed messages that are due, and when the next one is; epoch ms. */
  async takeDue(
    now: number,
    count: number,
  ): Promise<{ readonly entries: readonly StreamEntry[]; readonly nextAt: number | undefined }> {
    const { group, consumer, keys, idField } = this.#place;
    const reply = await this.#run(
      TAKE_DUE,
      [keys.delayed, keys.data, keys.retry],
      [group, consumer, now, count],
    );
    const [entries, next] = reply as [unknown[], string];
    return {
      entries: entries.map((entry) => entryOf(entry, true, idField)),
      nextAt: next === "" ? undefined : Number(next),
    };
  }

  /** Messages whose consumer has not shown for `idleMs` that it works on them. */
  async claimIdle(
    isRetry: boolean,
    { cursor, count, idleMs }: { cursor: string; count: number; idleMs: number },
  ): Promise<{ readonly cursor: string; readonly entries: readonly StreamEntry[] }> {
    const { group, consumer, idField } = this.#place;
    const args = [group, consumer, idleMs, cursor, count];
    const reply = await this.#run(CLAIM_IDLE, [this.#source(isRetry)], args);
    const [next, entries, deliveries] = reply as [string, unknown[], number[]];
    return {
      cursor: next,
      entries: entries.map((entry, index) =>
        entryOf(entry, isRetry, idField, Number(deliveries[index] ?? 1)),
      ),
    };
  }

  async renew(isRetry: boolean, entryIds: readonly string[]): Promise<void> {
    const { group, consumer } = this.#place;
    await this.#run(RENEW, [this.#source(isRetry)], [group, consumer, ...entryIds]);
  }

  async ack(isRetry: boolean, entryIds: readonly string[]): Promise<void> {
    const { group, keys } = this.#place;
    if (isRetry) await this.#run(ACK_RETRIED, [keys.retry], [group, ...entryIds]);
    else await this.#connection.send("XACK", keys.stream, group, ...entryIds);
  }

  /** Moves a message to the delayed ones. */
  delay(entry: StreamEntry, dueAt: number, state: string): Promise<MoveResult> {
    const { keys } = this.#place;
    const place = [this.#source(entry.isRetry), keys.delayed, keys.data];
    return this.#move(DELAY, place, entry, [dueAt, entry.message.id, state, flag(entry)]);
  }

  /** Moves a message to the dead letters. `maxLength`: how many of them stay; 0: all. */
  deadLetter(
    entry: StreamEntry,
    maxLength: number,
    state: string,
    reason: string,
  ): Promise<MoveResult> {
    const place = [this.#source(entry.isRetry), this.#place.keys.dead];
    const args = [maxLength, entry.message.id, state, flag(entry), reason];
    return this.#move(DEAD_LETTER, place, entry, args);
  }

  async #move(
    script: string,
    keys: readonly string[],
    { entryId, fields }: StreamEntry,
    args: readonly (string | number)[],
  ): Promise<MoveResult> {
    const { group, consumer } = this.#place;
    const known = [group, consumer, entryId, ...args];
    const result = await this.#run(script, keys, known);
    if (result !== "trimmed") return result as MoveResult;
    return (await this.#run(script, keys, [...known, ...fields])) as MoveResult;
  }

  /** Removes this consumer from the group, unless it has pending messages. */
  async leave(): Promise<void> {
    const { group, consumer, keys } = this.#place;
    for (const key of [keys.stream, keys.retry]) {
      await this.#run(LEAVE_GROUP, [key], [group, consumer]);
    }
  }

  async trim(): Promise<void> {
    await this.#run(TRIM, [this.#place.keys.stream], []);
  }

  #source(isRetry: boolean): string {
    const { keys } = this.#place;
    return isRetry ? keys.retry : keys.stream;
  }

  async #run(
    script: string,
    keys: readonly string[],
    args: readonly (string | number)[],
  ): Promise<unknown> {
    const { send } = this.#connection;
    const rest = [keys.length, ...keys, ...args];
    const hash = this.#hashes.get(script) ?? (await this.#load(script));
    try {
      return await send("EVALSHA", hash, ...rest);
    } catch (error) {
      if (!String(error).includes("NOSCRIPT")) throw error;
      // The server has restarted, or this is another node of a cluster.
      return await send("EVAL", script, ...rest);
    }
  }

  async #load(script: string): Promise<string> {
    const hash = String(await this.#connection.send("SCRIPT", "LOAD", script));
    this.#hashes.set(script, hash);
    return hash;
  }
}

function flag({ isRetry }: StreamEntry): string {
  return isRetry ? "1" : "0";
}

/** The fields of an entry, without those of this adapter. */
export type RedisFields = Readonly<Record<string, string>>;

interface StreamEntry extends LiveMember {
  /** The id in its stream. */
  readonly entryId: string;
  /** It is in the retry stream, not in the stream of the producers. */
  readonly isRetry: boolean;
  readonly message: Message<RedisFields>;
  /** As in Redis: name, value, name, value. */
  readonly fields: readonly string[];
}

/** Fields that a moved message has beside its own: its first id, and its state. */
const ID_FIELD = "redrive-id";
const STATE_FIELD = "redrive-state";
const REASON_FIELD = "redrive-reason";

const OWN_FIELDS: ReadonlySet<string> = new Set([ID_FIELD, STATE_FIELD, REASON_FIELD]);

/** `idField`: the field that has the message's id. Without it, the id is that of the first entry. */
function entryOf(
  reply: unknown,
  isRetry: boolean,
  idField: string | undefined,
  deliveries = 1,
): StreamEntry {
  const [entryId, fields] = reply as [string, string[]];
  const body: Record<string, string> = {};
  let firstId = entryId;
  let state: string | undefined;
  for (let index = 0; index + 1 < fields.length; index += 2) {
    const name = fields[index] ?? "";
    const value = fields[index + 1] ?? "";
    if (!OWN_FIELDS.has(name)) body[name] = value;
    else if (isRetry && name === ID_FIELD) firstId = value;
    else if (isRetry && name === STATE_FIELD) state = value;
  }
  const id = (idField === undefined ? undefined : body[idField]) ?? firstId;
  const message = { id, body, deliveries, state: decodeState(state) };
  return { entryId, isRetry, message, fields, index: -1 };
}

/**
 * The entries in a reply of XREADGROUP for one stream. RESP2 has a list of streams, RESP3 a map, which
 * clients show as a list, a `Map` or an object.
 */
function entriesIn(reply: unknown): readonly unknown[] {
  if (reply === null || reply === undefined) return [];
  if (Array.isArray(reply)) {
    const [first, second] = reply as unknown[];
    return (Array.isArray(first) ? first[1] : second) as unknown[];
  }
  const values = reply instanceof Map ? [...reply.values()] : Object.values(reply);
  return (values[0] ?? []) as unknown[];
}

interface RedisKeys {
  /** The stream that producers write. */
  readonly stream: string;
  /** Due times of delayed messages: a sorted set. */
  readonly delayed: string;
  /** The delayed messages themselves: a hash. */
  readonly data: string;
  /** Messages that are due again: a stream of this group alone. */
  readonly retry: string;
  /** The dead letters of this group: a stream. */
  readonly dead: string;
}

export function redisKeysOf(stream: string, group: string, dead: string | undefined): RedisKeys {
  const prefix = `${inSlotOf(stream)}:${group}`;
  return {
    stream,
    delayed: `${prefix}:delayed`,
    data: `${prefix}:delayed-data`,
    retry: `${prefix}:retry`,
    dead: dead ?? `${prefix}:dead`,
  };
}

/** A cluster hashes what is between the first `{` and the next `}`, or else the whole key. */
function inSlotOf(stream: string): string {
  const open = stream.indexOf("{");
  const close = stream.indexOf("}", open + 1);
  if (open >= 0 && close > open + 1) return stream;
  if (!stream.includes("}")) return `{${stream}}`;
  throw invalidArgument("stream must have no } outside of a hash tag", stream);
}

/** A client of ioredis, version 5 or later. */
interface IoRedisClient {
  call(command: string, ...args: string[]): Promise<unknown>;
  duplicate(): IoRedisClient;
  disconnect(): void;
  on(event: "error", listener: (error: Error) => void): unknown;
}

/** A client of node-redis, version 4 or later. */
interface NodeRedisClient {
  sendCommand(args: string[]): Promise<unknown>;
  duplicate(): NodeRedisClient;
  connect(): Promise<unknown>;
  destroy?(): void;
  disconnect?(): Promise<unknown>;
  on(event: "error", listener: (error: Error) => void): unknown;
}

export type RedisClient = IoRedisClient | NodeRedisClient;

interface RedisConnection {
  send(command: string, ...args: readonly (string | number)[]): Promise<unknown>;
  /** A connection of its own, for commands that block. */
  duplicate(): Promise<RedisConnection>;
  /** Only for a duplicate; the other connection is the caller's. */
  close(): void;
}

export function connectionOf(client: RedisClient): RedisConnection {
  if ("call" in client && typeof client.call === "function") return ioRedis(client);
  if ("sendCommand" in client && typeof client.sendCommand === "function") return nodeRedis(client);
  throw invalidArgument("client must be a client of ioredis or node-redis", client);
}

function ioRedis(client: IoRedisClient): RedisConnection {
  return {
    send: (command, ...args) => client.call(command, ...args.map(String)),
    duplicate: async () => ioRedis(quiet(client.duplicate())),
    close: () => client.disconnect(),
  };
}

function nodeRedis(client: NodeRedisClient): RedisConnection {
  return {
    send: (command, ...args) => client.sendCommand([command, ...args.map(String)]),
    async duplicate() {
      const copy = quiet(client.duplicate());
      await copy.connect();
      return nodeRedis(copy);
    },
    close: () => {
      // Version 5 has `destroy`; the `disconnect` of version 4 may reject.
      if (client.destroy !== undefined) client.destroy();
      else client.disconnect?.().catch(() => undefined);
    },
  };
}

/** The worker learns of errors from its commands. Without a listener, the event would end the process. */
function quiet<Client extends RedisClient>(client: Client): Client {
  client.on("error", () => undefined);
  return client;
}

// The scripts. Every move of a message is one script, so that a crash loses nothing and doubles nothing. A
// script takes the time as an argument.
//
// A message that comes back is not added to its stream again: other groups of that stream would get it too. It
// waits in a sorted set of its group, and moves to a stream of its group when it is due.

/**
 * Finds the fields of an entry that this consumer may move. Another consumer may have claimed it. An
 * entry that producers trimmed cannot be claimed by anybody; its fields are then the last arguments.
 * An entry that is not in the retry stream was moved before.
 */
const DEFINE_OWN_FIELDS = `
local function own_fields(source, group, consumer, id, is_retry, from)
  local owned = #redis.call('XPENDING', source, group, id, id, 1, consumer) > 0
  local entry = redis.call('XRANGE', source, id, id)[1]
  if not owned and (entry or is_retry == '1') then return nil, 'lost' end
  if not entry and #ARGV < from then return nil, 'trimmed' end
  local fields, own = entry and entry[2] or {}, {}
  if not entry then for i = from, #ARGV do fields[#fields + 1] = ARGV[i] end end
  for i = 1, #fields, 2 do
    local name = fields[i]
    if name ~= '${ID_FIELD}' and name ~= '${STATE_FIELD}' and name ~= '${REASON_FIELD}' then
      own[#own + 1] = name
      own[#own + 1] = fields[i + 1]
    end
  end
  return own, 'moved'
end
local function add(fields, name, value)
  fields[#fields + 1] = name
  fields[#fields + 1] = value
end
`;

/** KEYS: source, delayed, data. ARGV: group, consumer, entry, due, id, state, is the source the retry stream; fields. */
const DELAY: string = `${DEFINE_OWN_FIELDS}
local source, group, entry = KEYS[1], ARGV[1], ARGV[3]
local fields, result = own_fields(source, group, ARGV[2], entry, ARGV[7], 8)
if not fields then return result end
add(fields, '${ID_FIELD}', ARGV[5])
add(fields, '${STATE_FIELD}', ARGV[6])
local member = ARGV[7] .. entry
redis.call('HSET', KEYS[3], member, cmsgpack.pack(fields))
redis.call('ZADD', KEYS[2], ARGV[4], member)
redis.call('XACK', source, group, entry)
if ARGV[7] == '1' then redis.call('XDEL', source, entry) end
return result
`;

/** KEYS: source, dead. ARGV: group, consumer, entry, max length or 0, id, state, is the source the retry stream, reason; fields. */
const DEAD_LETTER: string = `${DEFINE_OWN_FIELDS}
local source, group, entry = KEYS[1], ARGV[1], ARGV[3]
local fields, result = own_fields(source, group, ARGV[2], entry, ARGV[7], 9)
if not fields then return result end
add(fields, '${ID_FIELD}', ARGV[5])
add(fields, '${STATE_FIELD}', ARGV[6])
add(fields, '${REASON_FIELD}', ARGV[8])
if ARGV[4] == '0' then redis.call('XADD', KEYS[2], '*', unpack(fields))
else redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[4], '*', unpack(fields)) end
redis.call('XACK', source, group, entry)
if ARGV[7] == '1' then redis.call('XDEL', source, entry) end
return result
`;

/** KEYS: delayed, data, retry. ARGV: group, consumer, now, count. Returns entries and the next due time. */
const TAKE_DUE: string = `
local delayed, data, retry = KEYS[1], KEYS[2], KEYS[3]
local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', ARGV[3], 'LIMIT', 0, ARGV[4])
for _, member in ipairs(due) do
  local packed = redis.call('HGET', data, member)
  if packed then redis.call('XADD', retry, '*', unpack(cmsgpack.unpack(packed))) end
  redis.call('HDEL', data, member)
  redis.call('ZREM', delayed, member)
end
local read = redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', ARGV[4], 'STREAMS', retry, '>')
local first = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
return { read and read[1][2] or {}, first[2] or '' }
`;

/** KEYS: source. ARGV: group, consumer, idle ms, cursor, count. Returns the cursor, entries and deliveries. */
const CLAIM_IDLE: string = `
local claimed = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], 'COUNT', ARGV[5])
local entries, deliveries = {}, {}
for _, entry in ipairs(claimed[2]) do
  if entry then
    entries[#entries + 1] = entry
    local pending = redis.call('XPENDING', KEYS[1], ARGV[1], entry[1], entry[1], 1)
    deliveries[#deliveries + 1] = pending[1] and pending[1][4] or 1
  end
end
return { claimed[1], entries, deliveries }
`;

/** Shows that this consumer still works on its entries. KEYS: source. ARGV: group, consumer; entries. */
const RENEW: string = `
for i = 3, #ARGV do
  local owned = #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2]) > 0
  if owned and redis.call('XRANGE', KEYS[1], ARGV[i], ARGV[i])[1] then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID')
  end
end
`;

/** KEYS: retry. ARGV: group; entries. */
const ACK_RETRIED: string = `
for i = 2, #ARGV do
  redis.call('XACK', KEYS[1], ARGV[1], ARGV[i])
  redis.call('XDEL', KEYS[1], ARGV[i])
end
`;

/** Deletes a consumer that has nothing pending: with entries, they would be lost. KEYS: source. ARGV: group, consumer. */
const LEAVE_GROUP: string = `
for _, info in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local fields = {}
  for i = 1, #info, 2 do fields[info[i]] = info[i + 1] end
  if fields['name'] == ARGV[2] and fields['pending'] == 0 then
    return redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
  end
end
`;

/** Removes what every group of the stream has handled. KEYS: stream. */
const TRIM: string = `
local function compare(a, b)
  local am, as = a:match('(%d+)-(%d+)')
  local bm, bs = b:match('(%d+)-(%d+)')
  if #am ~= #bm then return #am < #bm end
  if am ~= bm then return am < bm end
  if #as ~= #bs then return #as < #bs end
  return as < bs
end
local oldest
for _, info in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local group = {}
  for i = 1, #info, 2 do group[info[i]] = info[i + 1] end
  local needed = group['last-delivered-id']
  if group['pending'] > 0 then
    needed = redis.call('XPENDING', KEYS[1], group['name'])[2]
  end
  if not oldest or compare(needed, oldest) then oldest = needed end
end
if not oldest then return 0 end
return redis.call('XTRIM', KEYS[1], 'MINID', '~', oldest)
`;
