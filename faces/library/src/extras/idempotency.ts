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
