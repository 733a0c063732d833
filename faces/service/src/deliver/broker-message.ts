/**
 * Broker message: what one attempt publishes, made of the headers that any attempt sends and the body of
 * its task, and the login that the headers contain. It is the same for every broker. The intake of tasks
 * reads it without loading what connects to brokers.
 */
import type { Headers } from "../model/task.ts";

export interface BrokerMessage {
  /** The idempotency key: the same on every attempt of a task. */
  readonly id: string;
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
  /** All other headers, with names in lower case. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
}

/** Headers that are properties of the message, or that are about a request over HTTP. */
const OMITTED = new Set([
  "accept",
  "accept-encoding",
  "authorization",
  "content-encoding",
  "content-type",
  "idempotency-key",
  "user-agent",
]);

/** `flat`: alternating names and values. */
export function brokerMessage(flat: readonly string[], body: Uint8Array | null): BrokerMessage {
  const all = new Map<string, string>();
  for (let index = 0; index + 1 < flat.length; index += 2) {
    all.set((flat[index] ?? "").toLowerCase(), flat[index + 1] ?? "");
  }
  return {
    id: all.get("idempotency-key") ?? "",
    contentType: all.get("content-type"),
    contentEncoding: all.get("content-encoding"),
    headers: [...all].filter(([name]) => !OMITTED.has(name)),
    body: body ?? NO_BYTES,
  };
}

const NO_BYTES = new Uint8Array(0);

/** The name of the field with the body, in an entry of a stream of Redis. */
export const BODY_FIELD = "body";

// Broker login: the user and the password for a broker. A task has them in its header
// `Authorization: Basic`, because headers are encrypted in the store and masked in responses, and
// URLs are not.

export interface BrokerLogin {
  readonly user: string;
  readonly password: string;
}

const BASIC = /^basic +([A-Za-z0-9+/]+={0,2}) *$/i;

/**
 * RFC 7617 forbids them. The password of Redis is sent before the server has shown that it is one: a
 * server of another protocol must find no line of its own in it.
 */
const CONTROL = /\p{Cc}/u;

/** Null: the value is not valid. */
export function parseBasic(value: string): BrokerLogin | null {
  const bytes = Buffer.from(BASIC.exec(value)?.[1] ?? "", "base64");
  const text = bytes.toString("utf8");
  const colon = text.indexOf(":");
  if (colon < 0 || !Buffer.from(text).equals(bytes) || CONTROL.test(text)) return null;
  return { user: text.slice(0, colon), password: text.slice(colon + 1) };
}

/** The login in the headers of a task; undefined: it has none. The headers were checked before. */
export function loginIn(headers: Headers): BrokerLogin | undefined {
  for (const [name, value] of Object.entries(headers)) {
    if (name.toLowerCase() === "authorization") return parseBasic(value) ?? undefined;
  }
  return undefined;
}
