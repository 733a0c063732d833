/**
 * Outbox errors: why a task could not be stored inside a transaction of the caller. Each of them says
 * what to do with the transaction.
 */
import { invalidArgument, messageOf, RedriveError } from "@redrive/core";
import { sqlState, storeError } from "../connection/failure.ts";

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const FAILED_TRANSACTION = "25P02";
const READ_ONLY_TRANSACTION = "25006";

/** Either the caller has not called BEGIN, or its connection leads to another database. */
export function notOpen(database: string): RedriveError {
  const text =
    "tx must be one connection, on which BEGIN was called and not yet COMMIT, to the database of the store (a pool is not one)";
  return invalidArgument(text, `no open transaction in database ${database}`);
}

/** The caller's connection finds no schema, or has no right to use it. */
export function noAccess(
  access: "missing" | "denied",
  schema: string,
  database: string,
): RedriveError {
  if (access === "denied") {
    const text = `the user of tx needs USAGE of the schema ${schema} and EXECUTE of ${schema}.enqueue_task`;
    return invalidArgument(text, `neither or only one of them in database ${database}`);
  }
  const text = `tx must be connected to the database of the store, with the schema ${schema}`;
  return invalidArgument(text, `database ${database}`);
}

/** The `query` of `tx` does not return what a client of `pg` returns. */
export function badAnswer(found: unknown): RedriveError {
  return invalidArgument("tx.query must resolve to { rows }, as that of a pg client", found);
}

/** The caller's connection has failed, or its transaction had failed before. */
export function transactionFailure(error: unknown): RedriveError {
  const text = messageOf(error);
  const message =
    sqlState(error) === FAILED_TRANSACTION
      ? "an earlier statement of the transaction has failed"
      : `a statement on the connection of tx has failed: ${text}`;
  return new RedriveError("TRANSACTION_FAILED", `${message}: roll it back`, { cause: error });
}

/** The server refused the task, and the transaction is as it was before. */
export function refusal(state: string, text: string): unknown {
  const cause = Object.assign(new Error(text), { code: state });
  const error = storeError(cause);
  // The disk is full, or the content of the task is the cause.
  if (error !== cause) return error;
  if (state === READ_ONLY_TRANSACTION) {
    return invalidArgument("the transaction of tx must be able to write", text);
  }
  const message = `the task was not stored: ${text} (${state}): roll back, and repeat the transaction`;
  return new RedriveError("TRANSACTION_FAILED", message, { cause });
}
