/** A server for tests that speaks HTTP/2 frame by frame on a real socket, so that it can break every rule. */
import { once } from "node:events";
import { createServer, type Socket } from "node:net";

const PREFACE_BYTES = 24;
const FRAME = {
  data: 0,
  headers: 1,
  reset: 3,
  settings: 4,
  push: 5,
  ping: 6,
  goaway: 7,
  continuation: 9,
} as const;
const MAX_FRAME = 16_384;
const END_STREAM = 1;
const ACK = 1;
const END_HEADERS = 4;

type Pairs = readonly (readonly [name: string, value: string])[];

/** One connection, from the side of the server. */
export class Peer {
  readonly socket: Socket;
  /** The frames that the client has sent, such as `reset 8`. */
  readonly received: string[] = [];

  constructor(socket: Socket) {
    this.socket = socket;
  }

  frame(type: number, flags: number, stream: number, payload: Uint8Array = Buffer.alloc(0)): this {
    const head = Buffer.alloc(9);
    head.writeUIntBE(payload.length, 0, 3);
    head.writeUInt8(type, 3);
    head.writeUInt8(flags, 4);
    head.writeUInt32BE(stream, 5);
    if (!this.socket.destroyed) this.socket.write(Buffer.concat([head, payload]));
    return this;
  }

  /** A block that is too long for one frame goes on in further ones. */
  headers(stream: number, pairs: Pairs, isEnd = false): this {
    const block = hpack(pairs);
    const end = isEnd ? END_STREAM : 0;
    if (block.length <= MAX_FRAME) {
      return this.frame(FRAME.headers, END_HEADERS | end, stream, block);
    }
    return this.frame(FRAME.headers, end, stream, block.subarray(0, MAX_FRAME)).frame(
      FRAME.continuation,
      END_HEADERS,
      stream,
      block.subarray(MAX_FRAME),
    );
  }

  data(stream: number, bytes: Uint8Array, isEnd = false): this {
    return this.frame(FRAME.data, isEnd ? END_STREAM : 0, stream, bytes);
  }

  reset(stream: number, code: number): this {
    return this.frame(FRAME.reset, 0, stream, numbers(code));
  }

  goaway(lastStream: number, code: number): this {
    return this.frame(FRAME.goaway, 0, 0, numbers(lastStream, code));
  }

  ping(): this {
    return this.frame(FRAME.ping, 0, 0, Buffer.alloc(8));
  }

  settings(...entries: readonly (readonly [id: number, value: number])[]): this {
    const payload = entries.map(([id, value]) => {
      const entry = Buffer.alloc(6);
      entry.writeUInt16BE(id);
      entry.writeUInt32BE(value, 2);
      return entry;
    });
    return this.frame(FRAME.settings, 0, 0, Buffer.concat(payload));
  }

  push(stream: number): this {
    const promise = Buffer.concat([numbers(2), hpack([[":method", "GET"]])]);
    return this.frame(FRAME.push, END_HEADERS, stream, promise);
  }

  /** A complete and valid response. */
  respond(stream: number, code = 0, message = "honest"): this {
    return this.headers(stream, OK)
      .data(stream, framed(message))
      .headers(stream, [["grpc-status", String(code)]], true);
  }
}

/** The headers with which every valid response begins. */
export const OK: Pairs = [
  [":status", "200"],
  ["content-type", "application/grpc"],
];

export function framed(message: string): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, Buffer.from(message)]);
}

/** What to do with a call. `call`: its number, from 1, on all connections. */
export type Conduct = (peer: Peer, stream: number, call: number) => void;

export interface HostileHttp2 {
  readonly port: number;
  readonly peers: readonly Peer[];
  /** The calls so far, on all connections. */
  calls(): number;
  readonly url: string;
  close(): Promise<void>;
}

export interface HostileHttp2Options {
  /** What to do with a new connection. Default: it sends empty settings. */
  readonly greet?: (peer: Peer) => void;
}

export async function hostileHttp2(
  conduct: Conduct,
  { greet = (peer) => void peer.settings() }: HostileHttp2Options = {},
): Promise<HostileHttp2> {
  const peers: Peer[] = [];
  let calls = 0;
  const server = createServer((socket) => {
    const peer = new Peer(socket);
    peers.push(peer);
    socket.setNoDelay(true).on("error", () => {});
    greet(peer);
    readFrames(peer, (stream) => {
      calls++;
      conduct(peer, stream, calls);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : 0;
  return {
    port,
    peers,
    calls: () => calls,
    url: `grpc://127.0.0.1:${port}/test.Service/Call`,
    close: async () => {
      for (const { socket } of peers) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

function readFrames(peer: Peer, onCall: (stream: number) => void): void {
  let pending = Buffer.alloc(0);
  let isGreeted = false;
  peer.socket.on("data", (chunk: Buffer) => {
    pending = Buffer.concat([pending, chunk]);
    if (!isGreeted && pending.length < PREFACE_BYTES) return;
    if (!isGreeted) pending = pending.subarray(PREFACE_BYTES);
    isGreeted = true;
    while (pending.length >= 9 && pending.length >= 9 + pending.readUIntBE(0, 3)) {
      const length = pending.readUIntBE(0, 3);
      const frame = pending.subarray(0, 9 + length);
      pending = pending.subarray(9 + length);
      onFrame(peer, frame, onCall);
    }
  });
}

function onFrame(peer: Peer, frame: Buffer, onCall: (stream: number) => void): void {
  const [type, flags, stream] = [frame[3], frame[4] ?? 0, frame.readUInt32BE(5)];
  const payload = frame.subarray(9);
  if (type === FRAME.settings && (flags & ACK) === 0) peer.frame(FRAME.settings, ACK, 0);
  if (type === FRAME.reset) peer.received.push(`reset ${payload.readUInt32BE()}`);
  if (type === FRAME.goaway) peer.received.push(`goaway ${payload.readUInt32BE(4)}`);
  if (type === FRAME.headers) onCall(stream);
}

/** Literal headers without indexing and without Huffman coding. */
function hpack(pairs: Pairs): Buffer {
  const text = (value: string) => Buffer.concat([lengthOf(value.length), Buffer.from(value)]);
  return Buffer.concat(pairs.flatMap(([name, value]) => [Buffer.of(0), text(name), text(value)]));
}

function lengthOf(length: number): Buffer {
  if (length < 127) return Buffer.of(length);
  const bytes = [127];
  let rest = length - 127;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Buffer.from([...bytes, rest]);
}

function numbers(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length);
  for (const [index, value] of values.entries()) bytes.writeUInt32BE(value, 4 * index);
  return bytes;
}
