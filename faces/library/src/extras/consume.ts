/**
 * `redrive/consume`: handles the messages of a queue. It skips duplicates, retries with the same policy
 * document as every other call, and moves what cannot be handled to the dead letters. Adapters connect
 * it to a broker.
 */

export { type ConsumeOptions, consume } from "../consume/consume.ts";
export type { ConsumeEvent } from "../consume/consume-event.ts";
export type { Consumer } from "../consume/consumer.ts";
export {
  type Placement,
  type RetryTopic,
  type Tiers,
  type TiersOptions,
  tiers,
} from "../consume/kafka/tiers.ts";
export {
  type Acknowledge,
  type DeadLetter,
  type Defer,
  type DeferReason,
  type DeferRequest,
  type Disposition,
  defer,
  type Message,
  type MessageContext,
  type MessageHandler,
  type RetryLater,
} from "../consume/message.ts";
export {
  type DeliveryRecord,
  decodeState,
  encodeState,
  type MessageState,
} from "../consume/message-state.ts";
export type { AmqpConnection, AmqpMessage } from "../consume/rabbitmq/amqp-client.ts";
export type { RabbitBody } from "../consume/rabbitmq/amqp-delivery.ts";
export { type RabbitOptions, rabbitmq } from "../consume/rabbitmq/rabbitmq.ts";
export type { RedisClient } from "../consume/redis-streams/redis-client.ts";
export { type RedisStreamsOptions, redisStreams } from "../consume/redis-streams/redis-streams.ts";
export type { RedisFields } from "../consume/redis-streams/stream-entry.ts";
export { type SqsOptions, sqs } from "../consume/sqs/sqs.ts";
export type { SqsClient, SqsMessage } from "../consume/sqs/sqs-client.ts";
export type { Worker } from "../consume/worker.ts";
