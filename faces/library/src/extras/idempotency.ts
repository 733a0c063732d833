/**
 * `redrive/idempotency`: lets a server honor idempotency keys. The first request with a key runs; its
 * repetitions get the stored response.
 */
export type {
  Claim,
  ClaimResult,
  IdempotencyStore,
  Settlement,
  TransactionalStore,
} from "../stores/idempotency-store.ts";
export { type MemoryStoreOptions, memoryStore } from "../stores/memory-store.ts";
export {
  type PostgresHandle,
  type PostgresStore,
  type PostgresStoreOptions,
  postgresStore,
} from "../stores/postgres-store.ts";
export {
  type IoredisClient,
  type NodeRedisClient,
  type RedisStoreOptions,
  redisStore,
  type ScriptValues,
} from "../stores/redis-store.ts";
export {
  type SqliteHandle,
  type SqliteStatement,
  type SqliteStore,
  type SqliteStoreOptions,
  type SqliteValue,
  sqliteStore,
} from "../stores/sqlite-store.ts";
