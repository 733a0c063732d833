/**
 * Redis Streams: consumes the messages of a consumer group with the caller's own client. A message
 * stays pending in Redis until one script carries its disposition out, so a consumer can be killed at
 * any time and nothing is lost.
 */
import {
  booleanRule,
  checkFields,
  DocumentError,
  type Fields,
  invalidArgument,
  numberRule,
  type Rule,
  systemId,
  textRule,
} from "@redrive/core";
import type { Consumer } from "../consumer.ts";
import type { Worker } from "../worker.ts";
import { connectionOf, type RedisClient } from "./redis-client.ts";
import { redisKeysOf } from "./redis-keys.ts";
import { StreamCommands } from "./stream-commands.ts";
import type { RedisFields } from "./stream-entry.ts";
import { StreamWorker } from "./stream-worker.ts";

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
