/**
 * Redis stream: a connection to a Redis server. Messages are added to streams with XADD, and the replies
 * arrive in the order of the commands.
 */
import type { GrpcCode } from "@redrive/core";
import { BODY_FIELD, type BrokerMessage } from "./broker-message.ts";
import {
  type BrokerAnswer,
  BrokerRefusal,
  BrokerSession,
  type Publication,
  violation,
} from "./broker-session.ts";
import type { RedisPlace } from "./target.ts";

type OnReply = (reply: RespReply) => void;

export class RedisSession extends BrokerSession {
  readonly #reader = new RespReader((reply) => this.#onReply(reply));

  // Mutable state.
  /** Commands without a reply, in their order. */
  readonly #sent: OnReply[] = [];
  #failLogin: ((error: Error) => void) | undefined;

  /**
   * The last command proves that the target is a Redis server: nothing of a task is sent to anything
   * else.
   */
  login(): Promise<void> {
    const { login } = this.place;
    const { database } = this.place.place as RedisPlace;
    return new Promise((resolve, reject) => {
      this.#failLogin = reject;
      if (login !== undefined) {
        const { user, password } = login;
        this.#ask(["AUTH", ...(user === "" ? [] : [user]), password], "UNAUTHENTICATED");
      }
      if (database !== 0) this.#ask(["SELECT", String(database)], "NOT_FOUND");
      this.#ask(["PING"], "UNKNOWN", resolve);
    });
  }

  /** `otherwise`: the code of an error that is not known. */
  #ask(args: readonly string[], otherwise: GrpcCode, then?: () => void): void {
    this.#send(respCommand(args), (reply) => {
      // A user who may only add to a stream may not send PING, but only Redis says so.
      const isRefused = reply.kind === "error" && !(then && reply.text.startsWith("NOPERM"));
      if (isRefused) this.fail(new BrokerRefusal(errorAnswer(reply.text, otherwise)));
      else if (reply.kind !== "error" && !isReplyTo(args, reply)) throw violation(OTHER_SERVER);
      else then?.();
    });
  }

  #send(command: Buffer, onReply: OnReply): void {
    this.#sent.push(onReply);
    this.socket.write(command);
  }

  protected start(publication: Publication): void {
    const { place, message } = publication;
    const command = respCommand(addCommand(place as RedisPlace, message));
    if (!publication.mayStart()) return;
    this.#send(command, (reply) => publication.onAnswer(answerOf(reply)));
  }

  /** A reply that still arrives is ignored by the publication itself. */
  protected forget(): void {}

  unanswered(): undefined {
    return undefined;
  }

  protected receive(chunk: Buffer): void {
    this.#reader.push(chunk);
  }

  #onReply(reply: RespReply): void {
    const onReply = this.#sent.shift();
    if (onReply === undefined) throw violation("it sends a reply without a command");
    onReply(reply);
  }

  /** Redis has no heartbeat. */
  check(): void {}

  protected onFailed(error: Error): void {
    this.#failLogin?.(error);
  }

  protected close(): void {
    this.socket.destroy();
  }
}

const OTHER_SERVER = "it does not reply as Redis does";

/** The greeting of another server must not count. */
function isReplyTo([name]: readonly string[], reply: RespReply): boolean {
  return reply.kind === "value" && reply.text === (name === "PING" ? "PONG" : "OK");
}

/** Only a reply with an id says that the stream has the message. */
const ENTRY_ID = /^\d+-\d+$/;

function answerOf(reply: RespReply): BrokerAnswer {
  switch (reply.kind) {
    case "error":
      return errorAnswer(reply.text);
    case "nil":
      return NO_STREAM;
    default:
      if (!ENTRY_ID.test(reply.text)) throw violation("it replies without the id of an entry");
      return addedAnswer(reply.text);
  }
}

/** The XADD that adds a message to a stream, with a field for each of its headers. */
function addCommand(place: RedisPlace, message: BrokerMessage): (string | Uint8Array)[] {
  const { stream, maxLen, creates } = place;
  const { id, contentType, contentEncoding, headers, body } = message;
  const command: (string | Uint8Array)[] = ["XADD", stream];
  if (!creates) command.push("NOMKSTREAM");
  if (maxLen !== undefined) command.push("MAXLEN", "~", String(maxLen));
  command.push("*", "idempotency-key", id);
  if (contentType !== undefined) command.push("content-type", contentType);
  if (contentEncoding !== undefined) command.push("content-encoding", contentEncoding);
  for (const [name, value] of headers) command.push(name, value);
  command.push(BODY_FIELD, body);
  return command;
}

// Redis answers: what the error replies of Redis mean for a message.

/**
 * By the first word of the reply. A server that is loading, that lost its replicas, its disk or its
 * cluster, or that became a replica itself may accept the message later.
 */
const CODES: ReadonlyMap<string, GrpcCode> = new Map([
  ["ASK", "UNAVAILABLE"],
  ["BUSY", "UNAVAILABLE"],
  ["CLUSTERDOWN", "UNAVAILABLE"],
  ["DENIED", "PERMISSION_DENIED"],
  ["LOADING", "UNAVAILABLE"],
  ["MASTERDOWN", "UNAVAILABLE"],
  ["MISCONF", "UNAVAILABLE"],
  ["MOVED", "FAILED_PRECONDITION"],
  ["NOAUTH", "UNAUTHENTICATED"],
  ["NOPERM", "PERMISSION_DENIED"],
  ["NOREPLICAS", "UNAVAILABLE"],
  ["OOM", "RESOURCE_EXHAUSTED"],
  ["READONLY", "UNAVAILABLE"],
  ["TRYAGAIN", "UNAVAILABLE"],
  ["WRONGPASS", "UNAUTHENTICATED"],
  ["WRONGTYPE", "FAILED_PRECONDITION"],
]);

/** The name of the server may lead to another one soon. */
const ELSEWHERE = new Set(["CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "READONLY"]);

/** Errors without a word of their own. */
const TEXTS: readonly (readonly [start: string, code: GrpcCode])[] = [
  ["ERR max number of clients reached", "RESOURCE_EXHAUSTED"],
  ["ERR unknown command", "UNIMPLEMENTED"],
];

/** `otherwise`: the code of an error that is not known. */
function errorAnswer(text: string, otherwise: GrpcCode = "UNKNOWN"): BrokerAnswer {
  const [word = ""] = text.split(" ", 1);
  const known = CODES.get(word) ?? TEXTS.find(([start]) => text.startsWith(start))?.[1];
  const note = `the broker refused the message (${CODES.has(word) ? word : "ERR"})`;
  const isElsewhere = ELSEWHERE.has(word);
  return {
    code: known ?? otherwise,
    note,
    text: quotesArguments(text) ? undefined : text,
    isElsewhere,
  };
}

/** Redis quotes the first 128 bytes of what it did not understand, which may be half of a password. */
function quotesArguments(text: string): boolean {
  return /unknown command/i.test(text);
}

/** `text`: the id of the entry. */
function addedAnswer(text: string): BrokerAnswer {
  return { code: "OK", note: null, text };
}

const NO_STREAM: BrokerAnswer = {
  code: "NOT_FOUND",
  note: "the stream does not exist, and the target says create=false",
};

// RESP reader: splits what a Redis server sends into replies
// (https://redis.io/docs/latest/develop/reference/protocol-spec). It knows the replies that a
// publisher can get, and keeps at most one of them.

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
