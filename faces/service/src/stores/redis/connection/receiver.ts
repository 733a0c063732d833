/**
 * Receiver: receives the messages of a channel for as long as someone listens. A lost connection is
 * replaced by a new one, and then the listener gets null: messages may have been lost.
 */
import { type Cancel, systemClock } from "@redrive/core";
import type { Redis } from "ioredis";
import { type Link, retryDelayMs } from "./link.ts";

type Listener = (message: Buffer | null) => void;

export class Receiver {
  readonly #link: Link;
  readonly #channel: string;
  readonly #listener: Listener;
  #client: Redis | undefined;
  #cancelRetry: Cancel | undefined;
  #failures = 0;
  #isStarted = false;

  constructor(link: Link, channel: string, listener: Listener) {
    this.#link = link;
    this.#channel = channel;
    this.#listener = listener;
  }

  /** Resolves when messages arrive, or when the first try has failed. */
  async start(): Promise<void> {
    if (this.#isStarted) return;
    this.#isStarted = true;
    await this.#connect();
  }

  stop(): void {
    this.#isStarted = false;
    this.#cancelRetry?.();
    this.#client?.disconnect();
  }

  async #connect(): Promise<void> {
    const client = this.#link.openReceiver();
    this.#client = client;
    client.on("error", () => {});
    client.on("end", () => this.#retry(client));
    client.on("messageBuffer", (_: Buffer, message: Buffer) => this.#listener(message));
    try {
      await client.connect();
      await client.subscribe(this.#channel);
      if (this.#failures > 0) this.#listener(null);
      this.#failures = 0;
    } catch {
      client.disconnect();
    }
  }

  #retry(client: Redis): void {
    if (!this.#isStarted || this.#client !== client) return;
    this.#failures++;
    const connect = () => void this.#connect();
    this.#cancelRetry = systemClock.alarm(retryDelayMs(this.#failures), connect, true);
  }
}
