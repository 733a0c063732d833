/**
 * A server for tests that speaks AMQP 0-9-1 frame by frame on a real socket, so that it can break every
 * rule. It completes the handshake and confirms every message, unless a test tells it otherwise.
 */
import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import {
  BODY,
  FieldReader,
  FrameReader,
  frame,
  HEADER,
  long,
  longLong,
  longString,
  METHOD,
  octet,
  short,
  shortString,
} from "./amqp.ts";

/** The methods of the client, by class and number. */
const NAMES: ReadonlyMap<string, string> = new Map([
  ["10.11", "start-ok"],
  ["10.31", "tune-ok"],
  ["10.40", "open"],
  ["10.50", "close"],
  ["10.51", "close-ok"],
  ["20.10", "channel.open"],
  ["20.41", "channel.close-ok"],
  ["85.10", "confirm.select"],
  ["60.40", "publish"],
]);

export interface AmqpMessage {
  readonly channel: number;
  /** The number of the message on its channel, from 1. */
  readonly tag: number;
  readonly routingKey: string;
  /** The broker must return it if no queue takes it. */
  readonly isMandatory: boolean;
  readonly body: Buffer;
}

export interface Tuned {
  readonly channels?: number;
  readonly frameBytes?: number;
  readonly heartbeat?: number;
}

/** One connection, from the side of the server. */
export class AmqpPeer {
  readonly socket: Socket;
  /** The methods that the client has sent, and `heartbeat`. */
  readonly received: string[] = [];

  constructor(socket: Socket) {
    this.socket = socket;
  }

  write(bytes: Uint8Array): this {
    if (!this.socket.destroyed) this.socket.write(bytes);
    return this;
  }

  method(channel: number, classId: number, id: number, ...args: readonly Buffer[]): this {
    const payload = Buffer.concat([short(classId), short(id), ...args]);
    return this.write(frame(METHOD, channel, payload));
  }

  start(mechanisms = "PLAIN AMQPLAIN"): this {
    return this.method(0, 10, 10, short(9), long(0), longString(mechanisms), longString("en_US"));
  }

  tune({ channels = 2047, frameBytes = 131_072, heartbeat = 60 }: Tuned = {}): this {
    return this.method(0, 10, 30, short(channels), long(frameBytes), short(heartbeat));
  }

  openOk(): this {
    return this.method(0, 10, 41, shortString(""));
  }

  close(code: number, text: string): this {
    return this.method(0, 10, 50, short(code), shortString(text), short(0), short(0));
  }

  blocked(reason: string): this {
    return this.method(0, 10, 60, shortString(reason));
  }

  unblocked(): this {
    return this.method(0, 10, 61);
  }

  channelOpenOk(channel: number): this {
    return this.method(channel, 20, 11, longString(""));
  }

  channelClose(channel: number, code: number, text: string): this {
    return this.method(channel, 20, 40, short(code), shortString(text), short(0), short(0));
  }

  selectOk(channel: number): this {
    return this.method(channel, 85, 11);
  }

  ack(channel: number, tag: number): this {
    return this.method(channel, 60, 80, longLong(tag), octet(0));
  }

  nack(channel: number, tag: number): this {
    return this.method(channel, 60, 120, longLong(tag), octet(0));
  }

  returned(channel: number, code: number, text: string): this {
    const place = [shortString(""), shortString("nowhere")];
    return this.method(channel, 60, 50, short(code), shortString(text), ...place);
  }
}

/** What a server does. Everything that is not given is done correctly. */
export interface AmqpConduct {
  /** With a new connection that has sent its header. */
  readonly greet?: (peer: AmqpPeer) => void;
  /** With a method besides `publish`. True: it is done. */
  readonly onMethod?: (peer: AmqpPeer, name: string, channel: number) => boolean;
  /** With a message. `count`: its number, from 1, on all connections. */
  readonly onMessage?: (peer: AmqpPeer, message: AmqpMessage, count: number) => void;
  readonly tuned?: Tuned;
}

export interface AmqpTestServer {
  readonly port: number;
  readonly peers: readonly AmqpPeer[];
  readonly messages: readonly AmqpMessage[];
  /** Of a queue. */
  url(queue?: string): string;
  close(): Promise<void>;
}

export async function amqpTestServer(conduct: AmqpConduct = {}): Promise<AmqpTestServer> {
  const peers: AmqpPeer[] = [];
  const messages: AmqpMessage[] = [];
  const onMessage = conduct.onMessage ?? ((peer, { channel, tag }) => void peer.ack(channel, tag));
  const server = createServer((socket) => {
    const peer = new AmqpPeer(socket);
    peers.push(peer);
    socket.setNoDelay(true).on("error", () => {});
    readClient(peer, conduct, (message) => {
      messages.push(message);
      onMessage(peer, message, messages.length);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  return {
    port,
    peers,
    messages,
    url: (queue = "orders") => `amqp://127.0.0.1:${port}/?queue=${queue}`,
    close: async () => {
      for (const { socket } of peers) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

const HEADER_BYTES = 8;
const CHANNEL_OPEN = 20 * 65_536 + 10;

function readClient(
  peer: AmqpPeer,
  conduct: AmqpConduct,
  onMessage: (message: AmqpMessage) => void,
): void {
  const channels = new Map<number, IncomingChannel>();
  const frames = new FrameReader((type, channel, payload) => {
    if (type === METHOD) onMethod(peer, conduct, channel, payload);
    else if (channel === 0) peer.received.push("heartbeat");
    // A channel that is opened again counts its messages from 1.
    const isNew = type === METHOD && payload.readUInt32BE(0) === CHANNEL_OPEN;
    const known = isNew ? undefined : channels.get(channel);
    const incoming = known ?? new IncomingChannel(channel, onMessage);
    channels.set(channel, incoming.receive(type, payload));
  });
  let missing = HEADER_BYTES;
  peer.socket.on("data", (chunk: Buffer) => {
    const isGreeted = missing === 0;
    const rest = chunk.subarray(Math.min(missing, chunk.length));
    missing -= chunk.length - rest.length;
    if (!isGreeted && missing === 0) (conduct.greet ?? ((one) => void one.start()))(peer);
    if (rest.length > 0) frames.push(rest);
  });
}

function onMethod(peer: AmqpPeer, conduct: AmqpConduct, channel: number, payload: Buffer): void {
  const name = NAMES.get(`${payload.readUInt16BE(0)}.${payload.readUInt16BE(2)}`) ?? "unknown";
  peer.received.push(name);
  if (name === "publish" || conduct.onMethod?.(peer, name, channel)) return;
  if (name === "start-ok") peer.tune(conduct.tuned);
  else if (name === "open") peer.openOk();
  else if (name === "channel.open") peer.channelOpenOk(channel);
  else if (name === "confirm.select") peer.selectOk(channel);
  else if (name === "close") peer.method(0, 10, 51).socket.end();
}

/** Collects the messages of one channel. */
class IncomingChannel {
  readonly #channel: number;
  readonly #onMessage: (message: AmqpMessage) => void;
  #tag = 0;
  #place = { routingKey: "", isMandatory: false };
  #missing = 0;
  #chunks: Buffer[] = [];

  constructor(channel: number, onMessage: (message: AmqpMessage) => void) {
    this.#channel = channel;
    this.#onMessage = onMessage;
  }

  receive(type: number, payload: Buffer): this {
    if (type === METHOD) this.#place = placeIn(payload);
    else if (type === HEADER) this.#begin(Number(payload.readBigUInt64BE(4)));
    else if (type === BODY) this.#add(payload);
    return this;
  }

  #begin(length: number): void {
    this.#chunks = [];
    this.#missing = length;
    if (length === 0) this.#end();
  }

  #add(payload: Buffer): void {
    this.#chunks.push(Buffer.from(payload));
    this.#missing -= payload.length;
    if (this.#missing === 0) this.#end();
  }

  #end(): void {
    const body = Buffer.concat(this.#chunks);
    const message = { channel: this.#channel, tag: ++this.#tag, ...this.#place, body };
    this.#onMessage(message);
  }
}

function placeIn(payload: Buffer): Pick<AmqpMessage, "routingKey" | "isMandatory"> {
  if (payload.readUInt16BE(0) !== 60) return { routingKey: "", isMandatory: false };
  const fields = new FieldReader(payload.subarray(6));
  fields.shortString();
  return { routingKey: fields.shortString(), isMandatory: fields.octet() === 1 };
}
