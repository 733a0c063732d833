/**
 * AMQP delivery: the message in a delivery of RabbitMQ, and the properties of the copy that waits in a
 * delay queue or becomes a dead letter. The state travels in headers.
 */
import type { Message } from "../message.ts";
import { decodeState, encodeState, type MessageState } from "../message-state.ts";
import type { AmqpMessage, AmqpProperties } from "./amqp-client.ts";

/** What a handler gets as the body of a message. */
export interface RabbitBody {
  /** A `Buffer`. */
  readonly content: Uint8Array;
  readonly properties: AmqpProperties;
  /** Where the message was published first. */
  readonly exchange: string;
  readonly routingKey: string;
}

const STATE = "x-redrive-state";
const EXCHANGE = "x-redrive-exchange";
const ROUTING_KEY = "x-redrive-routing-key";
const REASON = "x-redrive-reason";
export const PUBLISH_TOKEN = "x-redrive-publish";

/** Quorum queues count how often a message was returned to the queue. */
const DELIVERY_COUNT = "x-delivery-count";

/** Headers of an earlier delivery, and those that route further copies, must not stay on a copy. */
const DROPPED =
  /^(x-(redrive-.*|death|first-death-.*|last-death-.*|delivery-count|acquired-count)|CC|BCC)$/;

export function messageOf(delivery: AmqpMessage, id: string): Message<RabbitBody> {
  const { content, fields, properties } = delivery;
  const headers = properties.headers ?? {};
  return {
    id,
    body: {
      content,
      properties,
      exchange: textOf(headers[EXCHANGE]) ?? fields.exchange,
      routingKey: textOf(headers[ROUTING_KEY]) ?? fields.routingKey,
    },
    deliveries: deliveriesOf(delivery),
    state: decodeState(textOf(headers[STATE])),
    isImmediate: true,
  };
}

/** A classic queue says only that there was an earlier delivery. */
function deliveriesOf({ fields, properties }: AmqpMessage): number {
  const count = properties.headers?.[DELIVERY_COUNT];
  if (typeof count === "number" && count >= 0) return Math.floor(count) + 1;
  return fields.redelivered ? 2 : 1;
}

/** The properties of a copy. Without a reason, the copy comes back. */
export function copyProperties(
  { id, body }: Message<RabbitBody>,
  state: MessageState,
  reason?: string,
): AmqpProperties & { readonly mandatory: true } {
  const { properties, exchange, routingKey } = body;
  // The time to live would end in the delay queue. Only the first publisher may claim the user's id.
  const { expiration: _, userId: __, ...rest } = properties;
  const own = Object.entries(properties.headers ?? {}).filter(([name]) => !DROPPED.test(name));
  const headers = {
    ...Object.fromEntries(own),
    [STATE]: encodeState(state),
    [EXCHANGE]: exchange,
    [ROUTING_KEY]: routingKey,
    ...(reason !== undefined && { [REASON]: reason }),
  };
  return { ...rest, messageId: id, headers, deliveryMode: 2, mandatory: true };
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
