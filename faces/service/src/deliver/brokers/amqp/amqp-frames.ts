/**
 * AMQP frames: reads and writes the frames of AMQP 0-9-1 (https://www.rabbitmq.com/amqp-0-9-1-protocol).
 * A frame has a type, a channel, a payload and an end byte.
 */
import { violation } from "../session/broker-answer.ts";

export const METHOD = 1;
export const HEADER = 2;
export const BODY = 3;
const HEARTBEAT = 8;
const FRAME_END = 0xce;

/** Bytes of a frame besides its payload. */
export const FRAME_OVERHEAD = 8;
const PREFIX_BYTES = 7;

/** The longest frame that either side may send. RabbitMQ has the same default. */
export const MAX_FRAME = 131_072;

/** The first bytes of a connection: the name and the version of the protocol. */
export const PROTOCOL_HEADER: Buffer = Buffer.from("AMQP\0\0\x09\x01", "latin1");

export const HEARTBEAT_FRAME: Buffer = frame(HEARTBEAT, 0, Buffer.alloc(0));

export function frame(type: number, channel: number, payload: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(payload.length + FRAME_OVERHEAD);
  bytes.writeUInt8(type, 0);
  bytes.writeUInt16BE(channel, 1);
  bytes.writeUInt32BE(payload.length, 3);
  bytes.set(payload, PREFIX_BYTES);
  bytes.writeUInt8(FRAME_END, payload.length + PREFIX_BYTES);
  return bytes;
}

export type OnFrame = (type: number, channel: number, payload: Buffer) => void;

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
