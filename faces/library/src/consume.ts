/**
 * `redrive/consume`: handles the messages of a queue. It skips duplicates, retries with the same policy
 * document as every other call, and moves what cannot be handled to the dead letters. Adapters connect
 * it to a broker.
 */

export { type ConsumeOptions, consume } from "./consume/consume.ts";
export type { Consumer } from "./consume/consumer.ts";
export type { PauseOptions } from "./consume/intake.ts";
export {
  type KafkaBody,
  type KafkaOptions,
  type KafkaOrder,
  kafka,
  type Placement,
  type RetryTopic,
  type Tiers,
  type TiersOptions,
  tiers,
} from "./consume/kafka.ts";
export type { KafkaClient, KafkaHeaders, KafkaRecord } from "./consume/kafka-client.ts";
export {
  type Acknowledge,
  type ConsumeEvent,
  type DeadLetter,
  type Defer,
  type DeferReason,
  type DeferRequest,
  type DeliveryRecord,
  type Disposition,
  decodeState,
  defer,
  encodeState,
  type Message,
  type MessageContext,
  type MessageHandler,
  type MessageState,
  type RetryLater,
} from "./consume/message.ts";
export {
  type AmqpConnection,
  type AmqpMessage,
  type RabbitBody,
  type RabbitOptions,
  rabbitmq,
} from "./consume/rabbitmq.ts";
export {
  type RedisClient,
  type RedisFields,
  type RedisStreamsOptions,
  redisStreams,
} from "./consume/redis-streams.ts";
export { type SqsClient, type SqsMessage, type SqsOptions, sqs } from "./consume/sqs.ts";
export type { Worker } from "./consume/worker.ts";
