/**
 * Redis keys: the keys that a group needs beside its stream. All of them are in the cluster slot of the
 * stream, because a script moves messages between them.
 */
import { invalidArgument } from "@redrive/core";

export interface RedisKeys {
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
