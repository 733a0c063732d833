/**
 * AMQP: a connection to RabbitMQ, or to another broker of AMQP 0-9-1. A message gets a free
 * channel, or waits for one.
 */
import type { Cancel, GrpcCode } from "@redrive/core";
import type { BrokerLogin, BrokerMessage } from "./broker-message.ts";
import {
  type BrokerAnswer,
  BrokerFailure,
  BrokerRefusal,
  BrokerSession,
  type BrokerSessionParts,
  type Publication,
  violation,
} from "./broker-session.ts";
import { MAX_CALLS } from "./session-pool.ts";
import type { AmqpPlace } from "./target.ts";

/** How long a broker may take to confirm the end of a connection. */
const CLOSE_MS = 1000;

const NOT_TUNED: Tuning = { channels: 0, frameBytes: 0, heartbeat: 0 };

export class AmqpSession extends BrokerSession implements ChannelOwner {
  readonly #reader = new FrameReader((type, channel, payload) => {
    if (type === METHOD) this.#onMethod(channel, payload);
  });

  // Mutable state.
  #handshake: AmqpHandshake | undefined;
  #tuning: Tuning = NOT_TUNED;
  readonly #channels = new Map<number, AmqpChannel>();
  readonly #free: AmqpChannel[] = [];
  readonly #waiting: Publication[] = [];
  /** The reason why the broker takes no messages; undefined: it does. */
  #blocked: string | undefined;
  #isClosing = false;
  #writtenMs: number;
  #endLogin: ((error?: Error) => void) | undefined;
  #cancelClose: Cancel | undefined;

  constructor(parts: BrokerSessionParts) {
    super(parts);
    this.#writtenMs = this.openedMs;
  }

  login(): Promise<void> {
    const { login, place } = this.place;
    const { virtualHost } = place as AmqpPlace;
    return new Promise((resolve, reject) => {
      this.#endLogin = (error) => (error === undefined ? resolve() : reject(error));
      const write = (bytes: Buffer) => this.write(bytes);
      const onOpen = (tuning: Tuning) => this.#onOpen(tuning);
      this.#handshake = new AmqpHandshake({ login, virtualHost, write, onOpen });
      this.write(PROTOCOL_HEADER);
    });
  }

  #onOpen(tuning: Tuning): void {
    this.#tuning = tuning;
    this.#handshake = undefined;
    this.#endLogin?.();
  }

  protected start(publication: Publication): void {
    if (this.#blocked !== undefined) {
      publication.onAnswer(blockedAnswer(this.#blocked));
      return;
    }
    this.#waiting.push(publication);
    const channel = this.#free.pop();
    if (channel !== undefined) this.onFree(channel);
    else this.#openChannels();
  }

  protected forget(publication: Publication): void {
    const index = this.#waiting.indexOf(publication);
    if (index >= 0) this.#waiting.splice(index, 1);
  }

  unanswered(): BrokerAnswer | undefined {
    return this.#blocked === undefined ? undefined : blockedAnswer(this.#blocked);
  }

  /** One for each message that waits, as far as the broker allows. */
  #openChannels(): void {
    let opening = 0;
    for (const { isOpen } of this.#channels.values()) if (!isOpen) opening++;
    for (; opening < this.#waiting.length; opening++) {
      const number = this.#unusedNumber();
      if (number === undefined) return;
      this.#channels.set(number, new AmqpChannel(number, this));
      this.write(openChannel(number));
    }
  }

  #unusedNumber(): number | undefined {
    for (let number = 1; number <= this.#tuning.channels; number++) {
      if (!this.#channels.has(number)) return number;
    }
    return undefined;
  }

  /** Gives the channel to the next message that may be sent. */
  onFree(channel: AmqpChannel): void {
    for (;;) {
      const publication = this.#waiting.shift();
      if (publication === undefined) break;
      if (this.#send(channel, publication)) return;
    }
    this.#free.push(channel);
  }

  #send(channel: AmqpChannel, publication: Publication): boolean {
    const { place, message } = publication;
    const { frameBytes } = this.#tuning;
    const frames = publish(channel.number, place as AmqpPlace, message, frameBytes);
    if (frames === undefined) {
      publication.onAnswer(HEADERS_TOO_LONG);
      return false;
    }
    if (!publication.mayStart()) return false;
    this.socket.cork();
    channel.publish(publication, frames);
    this.socket.uncork();
    return true;
  }

  onChannelClosed(channel: AmqpChannel, reply: Reply): void {
    this.#channels.delete(channel.number);
    const index = this.#free.indexOf(channel);
    if (index >= 0) this.#free.splice(index, 1);
    // A channel that was not open yet was opened for the message that waits first.
    const publication = channel.isOpen ? channel.publication : this.#waiting.shift();
    const answer = replyAnswer(reply);
    if (answer instanceof BrokerFailure) publication?.onFailure(answer);
    else publication?.onAnswer(answer);
    this.#openChannels();
  }

  protected receive(chunk: Buffer): void {
    this.#reader.push(chunk);
  }

  #onMethod(number: number, payload: Buffer): void {
    const fields = new FieldReader(payload);
    const method = fields.long();
    if (this.#isClosing) {
      if (method === RECEIVED.closeOk) this.socket.destroy();
    } else if (this.#handshake !== undefined) this.#handshake.receive(method, fields);
    else if (number === 0) this.#onConnectionMethod(method, fields);
    else this.#channels.get(number)?.receive(method, fields);
  }

  #onConnectionMethod(method: number, fields: FieldReader): void {
    switch (method) {
      case RECEIVED.blocked:
        this.#onBlocked(fields.shortString());
        return;
      case RECEIVED.unblocked:
        this.#blocked = undefined;
        return;
      case RECEIVED.close:
        this.write(CLOSE_OK);
        throw closeFailure(replyIn(fields));
      default:
    }
  }

  /** Messages that were sent wait for the end of the block, and for their deadline at most. */
  #onBlocked(reason: string): void {
    this.#blocked = reason;
    for (const publication of this.#waiting.splice(0)) publication.onAnswer(blockedAnswer(reason));
  }

  write(bytes: Buffer): void {
    this.#writtenMs = this.clock.monotonicMs();
    this.socket.write(bytes);
  }

  /** The broker closes a connection that is silent for longer than the heartbeat. */
  check(nowMs: number): void {
    const { heartbeat } = this.#tuning;
    const isDue = nowMs - this.#writtenMs >= (heartbeat * 1000) / 2;
    if (heartbeat > 0 && isDue && !this.#isClosing) this.write(HEARTBEAT_FRAME);
  }

  protected onFailed(error: Error): void {
    this.#endLogin?.(error);
    this.#cancelClose?.();
  }

  protected close(): void {
    this.#isClosing = true;
    this.socket.end(closeConnection());
    this.#cancelClose = this.clock.alarm(CLOSE_MS, () => this.socket.destroy(), true);
  }
}

// AMQP channel: publishes one message at a time and waits for its confirmation. Messages do not
// share a channel, because the broker closes the channel of a message that it refuses, and
// everything that was published on it stays without an answer.

/** What a channel tells its session. */
interface ChannelOwner {
  write(bytes: Buffer): void;
  /** The channel can take a message. */
  onFree(channel: AmqpChannel): void;
  /** The broker has closed the channel. `reply`: why; it was opening if it had no message. */
  onChannelClosed(channel: AmqpChannel, reply: Reply): void;
}

class AmqpChannel {
  readonly number: number;
  readonly #owner: ChannelOwner;

  // Mutable state.
  isOpen = false;
  /** Undefined: the channel is free. */
  publication: Publication | undefined;
  /** The number of messages so far, which is the tag of the last one. */
  #published = 0n;
  #returned: Reply | undefined;

  constructor(number: number, owner: ChannelOwner) {
    this.number = number;
    this.#owner = owner;
  }

  /** Writes the frames of a message. */
  publish(publication: Publication, frames: readonly Buffer[]): void {
    this.publication = publication;
    this.#returned = undefined;
    this.#published++;
    for (const bytes of frames) this.#owner.write(bytes);
  }

  /** Throws a `BrokerFailure` if the broker violates the protocol. */
  receive(method: number, fields: FieldReader): void {
    switch (method) {
      case RECEIVED.channelOpenOk:
        return;
      case RECEIVED.confirmSelectOk:
        if (this.isOpen) throw violation("it opens a channel twice");
        this.isOpen = true;
        this.#owner.onFree(this);
        return;
      case RECEIVED.returned:
        this.#returned = replyIn(fields);
        return;
      case RECEIVED.ack:
        this.#onConfirmed(fields, this.#returned === undefined ? OK : replyAnswer(this.#returned));
        return;
      case RECEIVED.nack:
        this.#onConfirmed(fields, NACK);
        return;
      case RECEIVED.channelClose:
        this.#owner.write(channelCloseOk(this.number));
        this.#owner.onChannelClosed(this, replyIn(fields));
        return;
      default:
        throw violation("it sends a method that does not belong here");
    }
  }

  #onConfirmed(fields: FieldReader, answer: BrokerAnswer | BrokerFailure): void {
    const tag = fields.longLong();
    const { publication } = this;
    // A tag of 0 means all messages so far.
    const isLast = tag === this.#published || tag === 0n;
    if (publication === undefined || !isLast) throw violation("it confirms an unknown message");
    if (answer instanceof BrokerFailure) throw answer;
    this.publication = undefined;
    publication.onAnswer(answer);
    this.#owner.onFree(this);
  }
}

function replyIn(fields: FieldReader): Reply {
  return { code: fields.short(), text: fields.shortString() };
}

// AMQP handshake: the methods that open a connection. The broker says what it can do (start),
// accepts the login and sets limits (tune), and opens the virtual host (open-ok).

/** Seconds without a frame after which each side may give the other up. RabbitMQ has the same default. */
const MAX_HEARTBEAT = 60;

/** No frame may be shorter (AMQP 0-9-1, frame-min-size). */
const MIN_FRAME = 4096;

interface HandshakeParts {
  readonly login: BrokerLogin | undefined;
  readonly virtualHost: string;
  readonly write: (bytes: Buffer) => void;
  readonly onOpen: (tuning: Tuning) => void;
}

class AmqpHandshake {
  readonly #parts: HandshakeParts;

  // Mutable state.
  #expected: number = RECEIVED.start;
  #tuning: Tuning | undefined;

  constructor(parts: HandshakeParts) {
    this.#parts = parts;
  }

  /** Throws if the broker refuses the connection or violates the protocol. */
  receive(method: number, fields: FieldReader): void {
    if (method === RECEIVED.close) throw this.#refusal(fields);
    if (method !== this.#expected) throw violation("a method is out of order");
    if (method === RECEIVED.start) this.#onStart(fields);
    else if (method === RECEIVED.tune) this.#onTune(fields);
    else this.#parts.onOpen(this.#tuning as Tuning);
  }

  #onStart(fields: FieldReader): void {
    fields.short();
    fields.skipTable();
    if (!fields.longString().split(" ").includes("PLAIN")) {
      throw new BrokerRefusal({ code: "UNAUTHENTICATED", note: NO_PASSWORDS });
    }
    this.#parts.write(startOk(this.#parts.login));
    this.#expected = RECEIVED.tune;
  }

  #onTune(fields: FieldReader): void {
    const tuning = {
      channels: lower(fields.short(), MAX_CALLS),
      frameBytes: lower(fields.long(), MAX_FRAME),
      heartbeat: Math.min(fields.short(), MAX_HEARTBEAT),
    };
    if (tuning.frameBytes < MIN_FRAME) throw violation("its frames are too short");
    const { write, virtualHost } = this.#parts;
    this.#tuning = tuning;
    write(Buffer.concat([tuneOk(tuning), openConnection(virtualHost)]));
    this.#expected = RECEIVED.openOk;
  }

  #refusal(fields: FieldReader): Error {
    const reply: Reply = { code: fields.short(), text: fields.shortString() };
    const answer = loginAnswer(reply, this.#tuning !== undefined);
    return answer instanceof BrokerFailure ? answer : new BrokerRefusal(answer);
  }
}

const NO_PASSWORDS = "the broker does not accept passwords (SASL mechanism PLAIN)";

/** The broker's limit or ours. Its 0 means that it has none. */
function lower(limit: number, own: number): number {
  return limit === 0 ? own : Math.min(limit, own);
}

// AMQP answers: what the reply codes of AMQP 0-9-1 and of RabbitMQ mean for a message. A code that
// is not known, and one with which the broker complains about this client, is a failure of the
// protocol.

/** A reply of the broker with a code. */
interface Reply {
  readonly code: number;
  readonly text: string;
}

const CODES: ReadonlyMap<number, readonly [name: string, code: GrpcCode]> = new Map([
  [311, ["CONTENT_TOO_LARGE", "INVALID_ARGUMENT"]],
  [312, ["NO_ROUTE", "NOT_FOUND"]],
  [313, ["NO_CONSUMERS", "UNAVAILABLE"]],
  [320, ["CONNECTION_FORCED", "UNAVAILABLE"]],
  [402, ["INVALID_PATH", "NOT_FOUND"]],
  [403, ["ACCESS_REFUSED", "PERMISSION_DENIED"]],
  [404, ["NOT_FOUND", "NOT_FOUND"]],
  [405, ["RESOURCE_LOCKED", "FAILED_PRECONDITION"]],
  [406, ["PRECONDITION_FAILED", "FAILED_PRECONDITION"]],
  [506, ["RESOURCE_ERROR", "RESOURCE_EXHAUSTED"]],
  [530, ["NOT_ALLOWED", "PERMISSION_DENIED"]],
  [540, ["NOT_IMPLEMENTED", "UNIMPLEMENTED"]],
  [541, ["INTERNAL_ERROR", "UNAVAILABLE"]],
]);

/** RabbitMQ has no code of its own for its limits of connections and channels. */
const LIMIT_REACHED = /\breached\b/;

/** An answer, or a failure if the broker complains about this client. */
function replyAnswer({ code, text }: Reply): BrokerAnswer | BrokerFailure {
  const known = CODES.get(code);
  if (known === undefined) return new BrokerFailure("protocol", String(code));
  const [name, found] = known;
  const isLimit = name === "NOT_ALLOWED" && LIMIT_REACHED.test(text);
  const note = `${NOTES[name] ?? "the broker refused the message"} (${code} ${name})`;
  return { code: isLimit ? "RESOURCE_EXHAUSTED" : found, note, text };
}

const NOTES: Readonly<Record<string, string>> = {
  NO_ROUTE: "the broker returned the message, because no queue takes it",
};

/** The broker ended the connection, so it may have taken any of its messages. */
function closeFailure({ code }: Reply): BrokerFailure {
  const name = CODES.get(code)?.[0];
  return name === undefined
    ? new BrokerFailure("protocol", String(code))
    : new BrokerFailure("reset", `${code} ${name}`);
}

/** The broker ended the connection during the login. `isKnown`: it has accepted the password. */
function loginAnswer(reply: Reply, isKnown: boolean): BrokerAnswer | BrokerFailure {
  const answer = replyAnswer(reply);
  if (answer instanceof BrokerFailure || reply.code !== 403 || isKnown) return answer;
  const note = "the broker refused the user or the password (403 ACCESS_REFUSED)";
  return { ...answer, code: "UNAUTHENTICATED", note };
}

const OK: BrokerAnswer = { code: "OK", note: null };

const NACK: BrokerAnswer = {
  code: "RESOURCE_EXHAUSTED",
  note: "the broker did not accept the message (basic.nack), as a full queue does",
};

const HEADERS_TOO_LONG: BrokerAnswer = {
  code: "INVALID_ARGUMENT",
  note: "the headers of the message do not fit into a frame of the broker",
};

/** `text`: the reason that the broker gave. */
function blockedAnswer(text: string): BrokerAnswer {
  const note = "the broker blocks publishers, because it lacks memory or disk space";
  return { code: "RESOURCE_EXHAUSTED", note, text };
}

// AMQP frames: reads and writes the frames of AMQP 0-9-1
// (https://www.rabbitmq.com/amqp-0-9-1-protocol). A frame has a type, a channel, a payload and an
// end byte.

export const METHOD = 1;
export const HEADER = 2;
export const BODY = 3;
const HEARTBEAT = 8;
const FRAME_END = 0xce;

/** Bytes of a frame besides its payload. */
const FRAME_OVERHEAD = 8;
const PREFIX_BYTES = 7;

/** The longest frame that either side may send. RabbitMQ has the same default. */
const MAX_FRAME = 131_072;

/** The first bytes of a connection: the name and the version of the protocol. */
const PROTOCOL_HEADER: Buffer = Buffer.from("AMQP\0\0\x09\x01", "latin1");

const HEARTBEAT_FRAME: Buffer = frame(HEARTBEAT, 0, Buffer.alloc(0));

export function frame(type: number, channel: number, payload: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(payload.length + FRAME_OVERHEAD);
  bytes.writeUInt8(type, 0);
  bytes.writeUInt16BE(channel, 1);
  bytes.writeUInt32BE(payload.length, 3);
  bytes.set(payload, PREFIX_BYTES);
  bytes.writeUInt8(FRAME_END, payload.length + PREFIX_BYTES);
  return bytes;
}

type OnFrame = (type: number, channel: number, payload: Buffer) => void;

/** Splits what arrives into frames. It keeps at most one frame. */
export class FrameReader {
  readonly #onFrame: OnFrame;

  // Mutable state.
  #chunks: Buffer[] = [];
  #length = 0;
  /** The bytes that are needed before anything can be done. */
  #needed = PREFIX_BYTES;

  constructor(onFrame: OnFrame) {
    this.#onFrame = onFrame;
  }

  /** Throws a `BrokerFailure` for bytes that are no frames. */
  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    if (this.#length < this.#needed) return;
    let rest = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks);
    for (;;) {
      this.#needed = neededFor(rest);
      if (rest.length < this.#needed) break;
      const end = this.#needed;
      if (rest[end - 1] !== FRAME_END) throw violation("a frame does not end where it should");
      const payload = rest.subarray(PREFIX_BYTES, end - 1);
      this.#onFrame(rest.readUInt8(0), rest.readUInt16BE(1), payload);
      rest = rest.subarray(end);
    }
    this.#chunks = rest.length === 0 ? [] : [rest];
    this.#length = rest.length;
  }
}

function neededFor(bytes: Buffer): number {
  if (bytes.length < PREFIX_BYTES) return PREFIX_BYTES;
  const type = bytes.readUInt8(0);
  if ((type < METHOD || type > BODY) && type !== HEARTBEAT) {
    throw violation("it sends something else");
  }
  const length = bytes.readUInt32BE(3) + FRAME_OVERHEAD;
  if (length > MAX_FRAME) throw violation("a frame is too long");
  return length;
}

// AMQP fields: the types of AMQP 0-9-1 that the arguments of methods and the headers of messages
// have.

type TableValue = string | boolean | Table;
type Table = readonly (readonly [name: string, value: TableValue])[];

export function short(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(2);
  bytes.writeUInt16BE(value);
  return bytes;
}

export function long(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

export function longLong(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeBigUInt64BE(BigInt(value));
  return bytes;
}

export function octet(value: number): Buffer {
  return Buffer.from([value]);
}

/** At most 255 bytes; the intake has checked that. */
export function shortString(text: string): Buffer {
  const bytes = Buffer.from(text);
  return Buffer.concat([octet(bytes.length), bytes]);
}

export function longString(text: string): Buffer {
  const bytes = Buffer.from(text);
  return Buffer.concat([long(bytes.length), bytes]);
}

function table(entries: Table): Buffer {
  const fields = entries.flatMap(([name, value]) => [shortString(name), tableValue(value)]);
  const bytes = Buffer.concat(fields);
  return Buffer.concat([long(bytes.length), bytes]);
}

/** With the letter of its type. */
function tableValue(value: TableValue): Buffer {
  if (typeof value === "string") return Buffer.concat([Buffer.from("S"), longString(value)]);
  if (typeof value === "boolean") return Buffer.from(["t".charCodeAt(0), value ? 1 : 0]);
  return Buffer.concat([Buffer.from("F"), table(value)]);
}

/** Reads fields in their order. Throws a `BrokerFailure` past the end. */
export class FieldReader {
  readonly #bytes: Buffer;

  // Mutable state.
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  octet(): number {
    return this.#take(1).readUInt8();
  }

  short(): number {
    return this.#take(2).readUInt16BE();
  }

  long(): number {
    return this.#take(4).readUInt32BE();
  }

  longLong(): bigint {
    return this.#take(8).readBigUInt64BE();
  }

  shortString(): string {
    return this.#take(this.octet()).toString();
  }

  longString(): string {
    return this.#take(this.long()).toString();
  }

  /** A table that nobody needs. */
  skipTable(): void {
    this.#take(this.long());
  }

  #take(length: number): Buffer {
    const end = this.#at + length;
    if (end > this.#bytes.length) throw violation("a frame is too short");
    const taken = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }
}

// AMQP methods: the methods that a publisher sends, as frames, and the numbers of those that it
// receives. Each method is a class and a number in it.

/** The methods that are received: the class in the upper 16 bits. */
const RECEIVED = {
  start: id(10, 10),
  tune: id(10, 30),
  openOk: id(10, 41),
  close: id(10, 50),
  closeOk: id(10, 51),
  blocked: id(10, 60),
  unblocked: id(10, 61),
  channelOpenOk: id(20, 11),
  channelClose: id(20, 40),
  confirmSelectOk: id(85, 11),
  returned: id(60, 50),
  ack: id(60, 80),
  nack: id(60, 120),
} as const;

function id(classId: number, method: number): number {
  return classId * 65_536 + method;
}

function methodFrame(
  channel: number,
  classId: number,
  method: number,
  ...args: readonly Buffer[]
): Buffer {
  return frame(METHOD, channel, Buffer.concat([short(classId), short(method), ...args]));
}

/** What the broker may expect of this client, and how it shows up in the broker's list of connections. */
const CLIENT = table([
  ["product", "Redrive"],
  ["connection_name", "redrive"],
  [
    "capabilities",
    [
      ["publisher_confirms", true],
      ["basic.nack", true],
      ["connection.blocked", true],
      ["authentication_failure_close", true],
    ],
  ],
]);

/** The user that a new broker has, and accepts from its own machine only. */
const GUEST: BrokerLogin = { user: "guest", password: "guest" };

function startOk({ user, password }: BrokerLogin = GUEST): Buffer {
  const response = longString(`\0${user}\0${password}`);
  const locale = shortString("en_US");
  return methodFrame(0, 10, 11, CLIENT, shortString("PLAIN"), response, locale);
}

interface Tuning {
  readonly channels: number;
  readonly frameBytes: number;
  /** Seconds; 0: none. */
  readonly heartbeat: number;
}

function tuneOk({ channels, frameBytes, heartbeat }: Tuning): Buffer {
  return methodFrame(0, 10, 31, short(channels), long(frameBytes), short(heartbeat));
}

function openConnection(virtualHost: string): Buffer {
  return methodFrame(0, 10, 40, shortString(virtualHost), shortString(""), octet(0));
}

function closeConnection(): Buffer {
  return methodFrame(0, 10, 50, short(200), shortString("done"), short(0), short(0));
}

const CLOSE_OK: Buffer = methodFrame(0, 10, 51);

/** Opens a channel on which the broker confirms every message. */
function openChannel(channel: number): Buffer {
  const open = methodFrame(channel, 20, 10, shortString(""));
  return Buffer.concat([open, methodFrame(channel, 85, 10, octet(0))]);
}

function channelCloseOk(channel: number): Buffer {
  return methodFrame(channel, 20, 41);
}

/** The broker returns a message that no queue takes. */
const MANDATORY = 1;
/** The broker keeps the message on its disk, if its queue is durable. */
const PERSISTENT = 2;

/** The frames of a message; undefined: its headers do not fit into a frame. */
function publish(
  channel: number,
  { exchange, routingKey }: AmqpPlace,
  message: BrokerMessage,
  frameBytes: number,
): readonly Buffer[] | undefined {
  const names = [short(0), shortString(exchange), shortString(routingKey)];
  const method = methodFrame(channel, 60, 40, ...names, octet(MANDATORY));
  const header = frame(HEADER, channel, contentHeader(message));
  if (header.length > frameBytes) return undefined;
  const frames = [method, header];
  const step = frameBytes - FRAME_OVERHEAD;
  for (let at = 0; at < message.body.length; at += step) {
    frames.push(frame(BODY, channel, message.body.subarray(at, at + step)));
  }
  return frames;
}

/** The properties of the message, in the order of their flags. */
function contentHeader(message: BrokerMessage): Buffer {
  const { id: messageId, contentType, contentEncoding, headers, body } = message;
  let flags = 0;
  const values: Buffer[] = [];
  const add = (bit: number, value: Buffer | undefined) => {
    if (value === undefined) return;
    flags += 2 ** bit;
    values.push(value);
  };
  add(15, contentType === undefined ? undefined : shortString(contentType));
  add(14, contentEncoding === undefined ? undefined : shortString(contentEncoding));
  add(13, table(headers));
  add(12, octet(PERSISTENT));
  add(7, shortString(messageId));
  return Buffer.concat([short(60), short(0), longLong(body.length), short(flags), ...values]);
}
