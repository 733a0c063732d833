/**
 * Redrive as a durable service: the public surface of `@redrive/service`.
 */
export { systemClock, systemRandom } from "@redrive/core";
export { createRedrive, type RedriveOptions } from "./create-redrive.ts";
export type { EngineEvent, EngineEventType } from "./engine/events.ts";
export type { DestinationHealth } from "./operations/destination-health.ts";
export type { RedriveCount } from "./operations/redrive-letters.ts";
export type { Skips } from "./operations/skips.ts";
export type { Accepted, Cancelled, Redrive } from "./redrive.ts";
export { assertEncryptionKey } from "./secrets.ts";
export {
  type AttemptPage,
  type DestinationRow,
  type Page,
  type Store,
  StoreBrokenError,
  StoreFullError,
  type TaskCount,
  type TaskFilter,
  type TaskPage,
} from "./store.ts";
export { type MemoryStore, memoryStore } from "./stores/memory/memory-store.ts";
export { checkSqliteFile } from "./stores/sqlite/check-file.ts";
export { sqliteStore } from "./stores/sqlite/sqlite-store.ts";
export {
  type AttemptLog,
  type AttemptPhases,
  DEFAULT_TENANT,
  type RetryTask,
  type TaskStatus,
} from "./task.ts";
export type { TaskInput } from "./task-input.ts";
