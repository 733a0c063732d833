/**
 * `redrive/idempotency`: lets a server honor idempotency keys. The first request with a key runs; its
 * repetitions get the stored response.
 */
export {
  type Idempotency,
  idempotency,
  type KeyClaim,
} from "./idempotency/idempotency.ts";
export type {
  IdempotencyEvent,
  IdempotencyEventType,
  IdempotencyListener,
  IdempotencyOptions,
} from "./idempotency/idempotency-options.ts";
export type {
  Claim,
  ClaimResult,
  IdempotencyStore,
  Settlement,
  TransactionalStore,
} from "./idempotency/idempotency-store.ts";
export { type MemoryStoreOptions, memoryStore } from "./idempotency/memory-store.ts";
export {
  type PostgresHandle,
  type PostgresStore,
  type PostgresStoreOptions,
  postgresStore,
} from "./idempotency/postgres-store.ts";
export {
  type IoredisClient,
  type NodeRedisClient,
  type RedisStoreOptions,
  redisStore,
  type ScriptValues,
} from "./idempotency/redis-store.ts";
export type { ResponseToStore } from "./idempotency/running-request.ts";
export {
  type SqliteHandle,
  type SqliteStatement,
  type SqliteStore,
  type SqliteStoreOptions,
  type SqliteValue,
  sqliteStore,
} from "./idempotency/sqlite-store.ts";
export { type ExpressMiddleware, type ExpressRequest, forExpress } from "./serve/for-express.ts";
export {
  type FastifyHook,
  type FastifyReplyLike,
  type FastifyRequestLike,
  forFastify,
} from "./serve/for-fastify.ts";
export { forFetch } from "./serve/for-fetch.ts";
export { forHono, type HonoContextLike } from "./serve/for-hono.ts";
export { forNode } from "./serve/for-node.ts";
export type {
  HandlerRun,
  Interceptor,
  PlainResponse,
  ServedBody,
  ServedRequest,
} from "./serve/interceptor.ts";
export type { NodeHeaderValue, NodeRequest, NodeResponse } from "./serve/node-http.ts";
export { NotExecuted, type NotExecutedOptions } from "./serve/problem.ts";
