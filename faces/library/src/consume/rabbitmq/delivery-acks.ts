/**
 * Delivery acks: acknowledges all messages that end in one turn of the event loop. The oldest messages,
 * up to the first one that still runs, need one frame together; each of the others needs its own.
 */
import type { AmqpMessage } from "./amqp-client.ts";

/** A message without an acknowledgment, between its neighbors in the order of the deliveries. */
export interface OpenDelivery {
  readonly message: AmqpMessage;
  state: "running" | "ended" | "acknowledged";
  before: OpenDelivery | undefined;
  after: OpenDelivery | undefined;
}

export interface DeliveryAcksParts {
  readonly endOfTurn: (fn: () => void) => void;
  /** `allUpTo`: with all earlier deliveries of the channel. */
  readonly ack: (message: AmqpMessage, allUpTo: boolean) => void;
}

export class DeliveryAcks {
  readonly #parts: DeliveryAcksParts;

  // Mutable state.
  #oldest: OpenDelivery | undefined;
  #newest: OpenDelivery | undefined;
  #ended: OpenDelivery[] = [];

  constructor(parts: DeliveryAcksParts) {
    this.#parts = parts;
  }

  /** Called for every delivery of the channel, in their order. */
  begin(message: AmqpMessage): OpenDelivery {
    const before = this.#newest;
    const delivery: OpenDelivery = { message, state: "running", before, after: undefined };
    if (before === undefined) this.#oldest = delivery;
    else before.after = delivery;
    this.#newest = delivery;
    return delivery;
  }

  /** The message is acknowledged at the end of this turn. */
  end(delivery: OpenDelivery): void {
    delivery.state = "ended";
    if (this.#ended.push(delivery) === 1) this.#parts.endOfTurn(() => this.flush());
  }

  /** Acknowledges what has ended. */
  flush(): void {
    const ended = this.#ended;
    this.#ended = [];
    this.#ackOldest();
    for (const delivery of ended) if (delivery.state === "ended") this.#ackOne(delivery);
  }

  #ackOldest(): void {
    let last: OpenDelivery | undefined;
    for (let next = this.#oldest; next?.state === "ended"; next = next.after) {
      next.state = "acknowledged";
      last = next;
    }
    if (last === undefined) return;
    this.#oldest = last.after;
    if (last.after === undefined) this.#newest = undefined;
    else last.after.before = undefined;
    this.#parts.ack(last.message, true);
  }

  #ackOne(delivery: OpenDelivery): void {
    const { message, before, after } = delivery;
    delivery.state = "acknowledged";
    // It has an older neighbor that runs; otherwise it would be one of the oldest.
    if (before !== undefined) before.after = after;
    if (after === undefined) this.#newest = before;
    else after.before = before;
    this.#parts.ack(message, false);
  }
}
