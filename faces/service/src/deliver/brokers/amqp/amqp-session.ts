/**
 * AMQP session: a connection to RabbitMQ, or to another broker of AMQP 0-9-1. A message gets a free
 * channel, or waits for one.
 */
import type { Cancel } from "@redrive/core";
import type { AmqpPlace } from "../../address-guard/broker-target.ts";
import { type BrokerAnswer, BrokerFailure } from "../session/broker-answer.ts";
import {
  BrokerSession,
  type BrokerSessionParts,
  type Publication,
} from "../session/broker-session.ts";
import {
  blockedAnswer,
  closeFailure,
  HEADERS_TOO_LONG,
  type Reply,
  replyAnswer,
} from "./amqp-answers.ts";
import { AmqpChannel, type ChannelOwner, replyIn } from "./amqp-channel.ts";
import { FieldReader } from "./amqp-fields.ts";
import { FrameReader, HEARTBEAT_FRAME, METHOD, PROTOCOL_HEADER } from "./amqp-frames.ts";
import { AmqpHandshake } from "./amqp-handshake.ts";
import {
  CLOSE_OK,
  closeConnection,
  openChannel,
  publish,
  RECEIVED,
  type Tuning,
} from "./amqp-methods.ts";

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
