/**
 * Stream commands: what the worker asks of Redis, one method per command or script. It keeps no state
 * besides the hashes of its scripts.
 */
import type { RedisConnection } from "./redis-client.ts";
import type { RedisKeys } from "./redis-keys.ts";
import {
  ACK_RETRIED,
  CLAIM_IDLE,
  DEAD_LETTER,
  DELAY,
  LEAVE_GROUP,
  RENEW,
  TAKE_DUE,
  TRIM,
} from "./redis-scripts.ts";
import { entriesIn, entryOf, type StreamEntry } from "./stream-entry.ts";

export interface GroupPlace {
  readonly keys: RedisKeys;
  readonly group: string;
  /** Name of this consumer in the group. */
  readonly consumer: string;
  readonly idField: string | undefined;
}

/** `lost`: another consumer has claimed the entry. */
export type MoveResult = "moved" | "lost";

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
