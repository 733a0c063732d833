/**
 * AMQP client: what the adapter needs of the caller's `amqplib`. The library does not import it.
 */

export interface AmqpMessage {
  readonly content: Uint8Array;
  readonly fields: AmqpFields;
  readonly properties: AmqpProperties;
}

export interface AmqpFields {
  readonly exchange: string;
  readonly routingKey: string;
  /** Absent in a message that the broker returns. */
  readonly redelivered?: boolean | undefined;
}

/** As `amqplib` has them. */
export interface AmqpProperties {
  readonly headers?: Readonly<Record<string, unknown>> | undefined;
  readonly messageId?: unknown;
  readonly contentType?: unknown;
  readonly contentEncoding?: unknown;
  readonly correlationId?: unknown;
  readonly replyTo?: unknown;
  readonly timestamp?: unknown;
  readonly type?: unknown;
  readonly appId?: unknown;
  readonly priority?: unknown;
  readonly deliveryMode?: unknown;
  readonly expiration?: unknown;
  readonly userId?: unknown;
}

export interface AmqpChannel {
  assertQueue(queue: string, options: object): Promise<unknown>;
  checkQueue(queue: string): Promise<unknown>;
  prefetch(count: number): Promise<unknown>;
  consume(
    queue: string,
    onMessage: (message: AmqpMessage | null) => void,
  ): Promise<{ readonly consumerTag: string }>;
  cancel(consumerTag: string): Promise<unknown>;
  publish(
    exchange: string,
    routingKey: string,
    content: Uint8Array,
    options: object,
    confirmed: (error: unknown) => void,
  ): boolean;
  ack(message: AmqpMessage, allUpTo?: boolean): void;
  close(): Promise<unknown>;
  on(event: string, listener: (...values: never[]) => void): unknown;
}

export interface AmqpConnection {
  createConfirmChannel(): Promise<AmqpChannel>;
  close(): Promise<unknown>;
  on(event: string, listener: (...values: never[]) => void): unknown;
}
