/**
 * Database: the types of the SQLite driver.
 */
import type { DatabaseSync, StatementSync } from "@photostructure/sqlite";

/** The driver exports its classes as values only. */
export type Database = InstanceType<typeof DatabaseSync>;
export type Statement = InstanceType<typeof StatementSync>;
