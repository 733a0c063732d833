/**
 * RESP reader: splits what a Redis server sends into replies
 * (https://redis.io/docs/latest/develop/reference/protocol-spec). It knows the replies that a publisher
 * can get, and keeps at most one of them.
 */
import { violation } from "../session/broker-answer.ts";

export type RespReply =
  /** A text, a number or bytes. */
  | { readonly kind: "value"; readonly text: string }
  | { readonly kind: "error"; readonly text: string }
  | { readonly kind: "nil" };

/** Replies are an id or an error. */
const MAX_REPLY = 65_536;

const NIL: RespReply = { kind: "nil" };

export class RespReader {
  readonly #onReply: (reply: RespReply) => void;

  // Mutable state.
  #rest: Buffer = Buffer.alloc(0);

  constructor(onReply: (reply: RespReply) => void) {
    this.#onReply = onReply;
  }

  /** Throws a `BrokerFailure` for bytes that are no replies. */
  push(chunk: Buffer): void {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    for (;;) {
      const end = this.#readOne(this.#rest);
      if (end === undefined) break;
      this.#rest = this.#rest.subarray(end);
    }
    if (this.#rest.length > MAX_REPLY) throw violation("a reply is too long");
  }

  /** Where the reply ends; undefined: it is not complete. */
  #readOne(bytes: Buffer): number | undefined {
    if (bytes.length === 0) return undefined;
    const type = String.fromCharCode(bytes[0] ?? 0);
    if (!"+-:$*_".includes(type)) throw violation("it sends something else");
    const lineEnd = bytes.indexOf("\r\n");
    if (lineEnd < 0) return undefined;
    const line = bytes.toString("utf8", 1, lineEnd);
    const next = lineEnd + 2;
    if (type === "$") return this.#readBulk(bytes, line, next);
    this.#onReply(replyOf(type, line));
    return next;
  }

  #readBulk(bytes: Buffer, line: string, start: number): number | undefined {
    if (line === "-1") {
      this.#onReply(NIL);
      return start;
    }
    const length = /^\d{1,9}$/.test(line) ? Number(line) : Number.POSITIVE_INFINITY;
    if (length > MAX_REPLY) throw violation("a reply is too long");
    const end = start + length;
    if (bytes.length < end + 2) return undefined;
    this.#onReply({ kind: "value", text: bytes.toString("utf8", start, end) });
    return end + 2;
  }
}

function replyOf(type: string, line: string): RespReply {
  switch (type) {
    case "-":
      return { kind: "error", text: line };
    case "+":
    case ":":
      return { kind: "value", text: line };
    default:
      if (type === "_" || line === "-1") return NIL;
      throw violation("it sends a list");
  }
}

/** A command as Redis reads it. */
export function respCommand(args: readonly (string | Uint8Array)[]): Buffer {
  const parts: Uint8Array[] = [Buffer.from(`*${args.length}\r\n`)];
  for (const arg of args) {
    const bytes = typeof arg === "string" ? Buffer.from(arg) : arg;
    parts.push(Buffer.from(`$${bytes.length}\r\n`), bytes, LINE_END);
  }
  return Buffer.concat(parts);
}

const LINE_END = Buffer.from("\r\n");
