/**
 * Index: the public API of `@redrive/service`.
 */
export { systemClock, systemRandom } from "@redrive/core";
export type { BodySource, StoredBody } from "./bodies/bodies.ts";
export { type BlobsReport, inspectBlobs } from "./bodies/inspect-blobs.ts";
export { createRedrive } from "./create-redrive.ts";
export {
  type ReceivedWebhook,
  verifyWebhook,
  type WebhookRefusal,
  type WebhookVerdict,
} from "./deliver/signing.ts";
export type { EngineEvent, EngineEventType } from "./engine/events/engine-event.ts";
export { assertEncryptionKey } from "./intake/encryption-keys.ts";
export type { EnqueueOptions } from "./intake/enqueue-options.ts";
export type { TaskInput } from "./intake/task-input.ts";
export type { Accepted } from "./intake/task-intake.ts";
export type { DisabledTarget, ServiceDocument } from "./model/delivery/delivery-settings.ts";
export type { DestinationRow } from "./model/destination-row.ts";
export type { Shards } from "./model/partition.ts";
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
export { exportStore, importStore } from "./move-store.ts";
export { type StoreText, storeTexts } from "./open-store.ts";
export type { AlertOptions } from "./operations/alerts/alert-options.ts";
export type { RedriveCount } from "./operations/dead-letter-redriver.ts";
export type { DestinationHealth } from "./operations/destination-health.ts";
export type { Skips } from "./operations/skips.ts";
export type { Cancelled, Redrive } from "./redrive.ts";
export type { RedriveOptions } from "./redrive-options.ts";
export { storeName } from "./store-name.ts";
export { type MemoryStore, memoryStore } from "./stores/memory/memory-store.ts";
export { inspectPostgres, type PostgresReport } from "./stores/postgres/inspect-postgres.ts";
export { type PostgresOptions, postgresStore } from "./stores/postgres/postgres-store.ts";
export { inspectRedis, type RedisReport } from "./stores/redis/connection/inspect.ts";
export { isRedisUrl } from "./stores/redis/connection/redis-url.ts";
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
export type { TelemetryOptions } from "./telemetry/open-telemetry.ts";
export { type ClockStatus, MAX_CLOCK_AHEAD_MS } from "./time/engine-time.ts";
export type { ExportOptions } from "./transfer/export-store.ts";
export type { RowCounts } from "./transfer/file-format.ts";
export type {
  Difference,
  ImportOptions,
  ImportProgress,
  ImportResult,
  ImportSource,
} from "./transfer/import-store.ts";
