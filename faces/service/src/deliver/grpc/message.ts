/**
 * Message: how gRPC puts messages into a stream of bytes. Each message has a prefix of 5 bytes: a flag
 * that says whether it is compressed, and its length. Nothing is compressed or decompressed here.
 */
import { BodyCapture } from "../response.ts";

const PREFIX_BYTES = 5;

/** The length of a message is a number of 32 bits. */
export const MAX_REQUEST_MESSAGE = 2 ** 32 - 1;

/** Bytes of a response that are read. The clients of gRPC have the same default. */
export const MAX_RESPONSE_BYTES = 4 << 20;

/** The prefix of a message of that length, which is not compressed. */
export function messagePrefix(length: number): Buffer {
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeUInt32BE(length, 1);
  return prefix;
}

/** A message with its prefix. No body is an empty message. */
export function framedMessage(body: Uint8Array | null): Buffer {
  const bytes = body ?? NO_BYTES;
  return Buffer.concat([messagePrefix(bytes.length), bytes]);
}

const NO_BYTES = new Uint8Array(0);

/** Reads the first message of a response, and counts the bytes of all. */
export class MessageReader {
  readonly #prefix = Buffer.alloc(PREFIX_BYTES);

  // Mutable state.
  #received = 0;
  /** The start of the message without its prefix; undefined until the prefix is complete. */
  body: BodyCapture | undefined;

  /** False: the response is longer than the limit, or says that its message will be. */
  add(chunk: Buffer): boolean {
    const inPrefix = Math.max(0, PREFIX_BYTES - this.#received);
    if (inPrefix > 0) chunk.copy(this.#prefix, this.#received, 0, inPrefix);
    this.#received += chunk.length;
    if (this.#received < PREFIX_BYTES) return true;
    this.body ??= new BodyCapture();
    const left = this.#messageLength() - this.body.length;
    if (left > 0 && chunk.length > inPrefix)
      this.body.add(chunk.subarray(inPrefix, inPrefix + left));
    return Math.max(this.#received, this.#messageLength() + PREFIX_BYTES) <= MAX_RESPONSE_BYTES;
  }

  /** The whole message was received. A response without a message is complete too. */
  isComplete(): boolean {
    if (this.body === undefined) return this.#received === 0;
    return this.body.length === this.#messageLength();
  }

  #messageLength(): number {
    return this.#prefix.readUInt32BE(1);
  }
}
