/**
 * Broker login: the user and the password for a broker. A task has them in its header `Authorization:
 * Basic`, because headers are encrypted in the store and masked in responses, and URLs are not.
 */
import type { Headers } from "../../../model/task.ts";

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
