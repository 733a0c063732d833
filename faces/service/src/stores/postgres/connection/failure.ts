/**
 * Failure: classifies errors of PostgreSQL by their SQLSTATE, and decides which statements are
 * repeated. An error without one is a lost connection: the outcome of its statement is unknown.
 */
import { messageOf } from "@redrive/core";
import { StoreFullError, StoreRefusedError } from "../../../model/store-errors.ts";

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const DISK_FULL = "53100";
const SERIALIZATION_FAILURE = "40001";
const DEADLOCK_DETECTED = "40P01";
/** The content of a statement is the cause: bad data, a constraint, or a limit of the server. */
const REFUSALS = ["22", "23", "54"];
/** Raised by `commit_batch`: the partition of the day does not exist. */
export const NO_ATTEMPT_DAY = "RD001";
/** A table, a schema or a function does not exist. */
export const MISSING = ["42P01", "3F000", "42883"] as const;
export const LOCK_TIMEOUT = "55P03";

/** The SQLSTATE of an error; empty without one. */
export function sqlState(error: unknown): string {
  const code = (error as { readonly code?: unknown } | null)?.code;
  return typeof code === "string" && /^[0-9A-Z]{5}$/u.test(code) ? code : "";
}

/** The error to reject with. */
export function storeError(error: unknown): unknown {
  const state = sqlState(error);
  const text = messageOf(error);
  if (state === DISK_FULL) {
    return new StoreFullError(`no space left for PostgreSQL: ${text}`, { cause: error });
  }
  if (REFUSALS.includes(state.slice(0, 2))) {
    return new StoreRefusedError(`PostgreSQL refuses an item: ${text}`, { cause: error });
  }
  return error;
}

/** Two transactions met, and the server rolled this one back. */
export function isConflict(error: unknown): boolean {
  return [SERIALIZATION_FAILURE, DEADLOCK_DETECTED].includes(sqlState(error));
}
