/**
 * AMQP channel: publishes one message at a time and waits for its confirmation. Messages do not share a
 * channel, because the broker closes the channel of a message that it refuses, and everything that was
 * published on it stays without an answer.
 */
import { type BrokerAnswer, BrokerFailure, violation } from "../session/broker-answer.ts";
import type { Publication } from "../session/broker-session.ts";
import { NACK, OK, type Reply, replyAnswer } from "./amqp-answers.ts";
import type { FieldReader } from "./amqp-fields.ts";
import { channelCloseOk, RECEIVED } from "./amqp-methods.ts";

/** What a channel tells its session. */
export interface ChannelOwner {
  write(bytes: Buffer): void;
  /** The channel can take a message. */
  onFree(channel: AmqpChannel): void;
  /** The broker has closed the channel. `reply`: why; it was opening if it had no message. */
  onChannelClosed(channel: AmqpChannel, reply: Reply): void;
}

export class AmqpChannel {
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

export function replyIn(fields: FieldReader): Reply {
  return { code: fields.short(), text: fields.shortString() };
}
