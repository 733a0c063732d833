/**
 * Slow readers: closes connections whose client reads nothing while a response is unsent. A client
 * that reads slowly is kept, and so is one that waits for its response.
 */
import type { Socket } from "node:net";
import type { Cancel, Clock } from "@redrive/core";

/** Checks per timeout: a connection is closed after the timeout plus at most one check. */
const CHECKS = 4;

interface Reader {
  /** Changes whenever the client has read something. */
  progress: number;
  /** The last check that saw progress, or nothing unsent; monotonic ms. */
  atMs: number;
}

export class SlowReaders {
  readonly #clock: Clock;
  readonly #timeoutMs: number;

  // Mutable state.
  readonly #readers = new Map<Socket, Reader>();
  #cancel: Cancel | undefined;

  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  watch(socket: Socket): void {
    this.#readers.set(socket, { progress: 0, atMs: this.#clock.monotonicMs() });
    socket.once("close", () => this.#readers.delete(socket));
    if (this.#cancel === undefined) this.#schedule();
  }

  /** Runs only while there are connections. */
  #schedule(): void {
    const check = () => {
      this.#cancel = undefined;
      this.#check(this.#clock.monotonicMs());
      if (this.#readers.size > 0) this.#schedule();
    };
    this.#cancel = this.#clock.alarm(this.#timeoutMs / CHECKS, check, true);
  }

  #check(nowMs: number): void {
    for (const [socket, reader] of this.#readers) {
      const progress = progressOf(socket);
      if (socket.writableLength === 0 || progress !== reader.progress) {
        reader.progress = progress;
        reader.atMs = nowMs;
      } else if (nowMs - reader.atMs >= this.#timeoutMs) socket.destroy();
    }
  }
}

/**
 * Completed writes, minus what the system has not taken of the current write. Node has no public
 * counter for the second part; without it, one long response would look like no progress.
 */
function progressOf(socket: Socket): number {
  const { _handle: handle } = socket as { readonly _handle?: { readonly writeQueueSize?: number } };
  return socket.bytesWritten - socket.writableLength - (handle?.writeQueueSize ?? 0);
}
