/**
 * Index: the public API of `@redrive/service`.
 */

export {
  systemClock,
  systemRandom,
  type WebhookRefusal,
  type WebhookVerdict,
} from "@redrive/core";
export type { BodySource, StoredBody } from "./bodies/bodies.ts";
export { type BlobsReport, inspectBlobs } from "./bodies/open-blobs.ts";
export { createRedrive } from "./create-redrive.ts";
export { type ReceivedWebhook, verifyWebhook } from "./deliver/signing.ts";
export { STOP_GRACE_MS } from "./engine/engine.ts";
export type { EngineEvent, EngineEventType } from "./engine/events.ts";
export { encryptionKeyIds } from "./intake/secrets.ts";
export type { TaskInput } from "./intake/task-input.ts";
export type { Accepted, EnqueueOptions } from "./intake/task-intake.ts";
export type { DisabledTarget, ServiceDocument } from "./model/delivery/delivery-settings.ts";
export type { DestinationRow } from "./model/destination-row.ts";
export type { CallerTransaction, Store } from "./model/store.ts";
export { StoreBrokenError, StoreFullError, StoreRefusedError } from "./model/store-errors.ts";
export { whyUnreadable } from "./model/stored-documents.ts";
export {
  type AttemptLog,
  type AttemptPhases,
  DEFAULT_TENANT,
  type RetryTask,
  type TaskStatus,
} from "./model/task.ts";
export type {
  AttemptPage,
  DestinationCounts,
  Page,
  TaskCounts,
  TaskFilter,
  TaskPage,
} from "./model/task-query.ts";
export { storeName } from "./open-store.ts";
export type { TelemetryOptions } from "./open-telemetry.ts";
export type { AlertOptions } from "./operations/alerts.ts";
export type { RedriveCount } from "./operations/dead-letter-redriver.ts";
export type { DestinationHealth } from "./operations/destination-health.ts";
export type { Skips } from "./operations/redrive-job.ts";
export type { Cancelled, EncryptionStatus, Redrive } from "./redrive.ts";
export type { RedriveOptions } from "./redrive-options.ts";
export { type MemoryStore, memoryStore } from "./stores/memory/memory-store.ts";
export { inspectPostgres, type PostgresReport } from "./stores/postgres/inspect-postgres.ts";
export { type PostgresOptions, postgresStore } from "./stores/postgres/postgres-store.ts";
export { isRedisUrl } from "./stores/redis/connection/redis-url.ts";
export { inspectRedis, type RedisReport } from "./stores/redis/connection/settings.ts";
export { redisStore } from "./stores/redis/redis-store.ts";
export {
  type ClockRepair,
  readSqliteClock,
  repairSqliteClock,
} from "./stores/sqlite/file/clock-repair.ts";
export { readSqliteDocuments } from "./stores/sqlite/file/read-documents.ts";
export {
  type Backup,
  backupPart,
  backupSqliteFile,
} from "./stores/sqlite/maintenance/backup-file.ts";
export { checkSqliteFile } from "./stores/sqlite/maintenance/check-file.ts";
export {
  type AcceptedLoss,
  acceptSqliteLoss,
  type FileReport,
  inspectSqliteFile,
} from "./stores/sqlite/maintenance/repair-file.ts";
export { type Restored, restoreSqliteFile } from "./stores/sqlite/maintenance/restore-file.ts";
export { type SqliteOptions, sqliteStore } from "./stores/sqlite/sqlite-store.ts";
export { type ClockStatus, MAX_CLOCK_AHEAD_MS } from "./time/engine-time.ts";
export {
  type Difference,
  type ExportOptions,
  exportStore,
  type ImportOptions,
  type ImportProgress,
  type ImportResult,
  type ImportSource,
  importStore,
  type RowCounts,
} from "./transfer.ts";
