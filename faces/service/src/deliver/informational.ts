/**
 * Informational: lets a target send `100 Continue` although nobody asked for it (RFC 9110 15.2 says
 * that a client ignores it). undici ignores every informational response except 100, for which it
 * destroys the connection. So 100 becomes 102 before undici reads it. Only the status of a response
 * is changed, never a byte of a body.
 */
import type { Socket } from "node:net";

/** The start of an informational response. A dot stands for any character. */
const START = "HTTP/1.. 1..";
const END_OF_HEAD = "\r\n\r\n";
const ZERO = 0x30;
const TWO = 0x32;

/** Changes the socket so that undici does not see a 100. */
export function acceptContinue(socket: Socket): Socket {
  const filter = new ContinueFilter();
  const { read, write } = socket;
  socket.read = (size) => {
    const chunk: unknown = read.call(socket, size);
    if (chunk instanceof Uint8Array) filter.filter(chunk);
    return chunk;
  };
  // undici sends one request at a time, and completely, before it reads the response.
  socket.write = ((...args: Parameters<typeof write>) => {
    filter.expectResponse();
    return write.apply(socket, args);
  }) as typeof write;
  return socket;
}

/** Follows the bytes of a connection, in chunks of any size. */
class ContinueFilter {
  // Mutable state.
  /** False once the final response has begun. */
  #isExpecting = false;
  /** The number of characters that match `START`. */
  #matched = 0;
  /** The number of characters that match `END_OF_HEAD`. */
  #matchedEnd = 0;
  /** The second digit of the status is 0. */
  #hasZero = false;

  expectResponse(): void {
    this.#isExpecting = true;
    this.#matched = 0;
    this.#matchedEnd = 0;
  }

  filter(chunk: Uint8Array): void {
    for (let at = 0; this.#isExpecting && at < chunk.length; at++) this.#step(chunk, at);
  }

  #step(chunk: Uint8Array, at: number): void {
    const byte = chunk[at] ?? 0;
    if (this.#matched === START.length) {
      this.#followHead(byte);
      return;
    }
    const expected = START[this.#matched];
    if (expected !== "." && expected !== String.fromCharCode(byte)) {
      this.#isExpecting = false;
      return;
    }
    this.#matched++;
    if (this.#matched === START.length - 1) this.#hasZero = byte === ZERO;
    const isLast = this.#matched === START.length;
    if (isLast && this.#hasZero && byte === ZERO) chunk[at] = TWO;
  }

  /** After the head of an informational response, another response begins. */
  #followHead(byte: number): void {
    const character = String.fromCharCode(byte);
    if (character === END_OF_HEAD[this.#matchedEnd]) this.#matchedEnd++;
    else this.#matchedEnd = character === "\r" ? 1 : 0;
    if (this.#matchedEnd === END_OF_HEAD.length) this.expectResponse();
  }
}
