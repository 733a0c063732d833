/**
 * Stream entry: one entry of a stream as Redis replies it, and the message in it.
 */
import type { LiveMember } from "../live-list.ts";
import type { Message } from "../message.ts";
import { decodeState } from "../message-state.ts";
import { ID_FIELD, REASON_FIELD, STATE_FIELD } from "./redis-scripts.ts";

/** The fields of an entry, without those of this adapter. */
export type RedisFields = Readonly<Record<string, string>>;

export interface StreamEntry extends LiveMember {
  /** The id in its stream. */
  readonly entryId: string;
  /** It is in the retry stream, not in the stream of the producers. */
  readonly isRetry: boolean;
  readonly message: Message<RedisFields>;
  /** As in Redis: name, value, name, value. */
  readonly fields: readonly string[];
}

const OWN_FIELDS: ReadonlySet<string> = new Set([ID_FIELD, STATE_FIELD, REASON_FIELD]);

/** `idField`: the field that has the message's id. Without it, the id is that of the first entry. */
export function entryOf(
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
export function entriesIn(reply: unknown): readonly unknown[] {
  if (reply === null || reply === undefined) return [];
  if (Array.isArray(reply)) {
    const [first, second] = reply as unknown[];
    return (Array.isArray(first) ? first[1] : second) as unknown[];
  }
  const values = reply instanceof Map ? [...reply.values()] : Object.values(reply);
  return (values[0] ?? []) as unknown[];
}
