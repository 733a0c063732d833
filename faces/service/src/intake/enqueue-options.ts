/**
 * Enqueue options: what a caller may say about how a task is stored: for which tenant, and inside
 * which transaction.
 */
import { checkFields, DocumentError, type Fields, invalidArgument, isObject } from "@redrive/core";
import { serviceError } from "../model/errors.ts";
import type { CallerTransaction, Store } from "../model/store.ts";
import { DEFAULT_TENANT } from "../model/task.ts";

export interface EnqueueOptions {
  /**
   * A client of `pg` on which a transaction is open, connected to the database of the store. The task
   * exists once the caller commits. Default: the task is stored at once.
   */
  readonly tx?: CallerTransaction;
  /** Default: the tenant of an embedding process. */
  readonly tenantId?: string;
}

const WANTED_TX = "a pg client, with a function query(text, values)";

const FIELDS: Fields & Readonly<Record<keyof EnqueueOptions, unknown>> = {
  tx: (value: unknown) => (hasQuery(value) ? undefined : WANTED_TX),
  tenantId: (value: unknown) => (typeof value === "string" ? undefined : "a string"),
};

/** Throws `INVALID_ARGUMENT`, also for a transaction if the store has none of callers. */
export function readEnqueueOptions(
  options: string | EnqueueOptions,
  { createIn }: Pick<Store, "createIn">,
): EnqueueOptions & { readonly tenantId: string } {
  if (typeof options === "string") return { tenantId: options };
  if (!isObject(options))
    throw invalidArgument("the options of enqueue must be an object", options);
  const problems = checkFields(options, FIELDS);
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
  const { tx, tenantId = DEFAULT_TENANT }: EnqueueOptions = options;
  if (!Object.hasOwn(options, "tx")) return { tenantId };
  // A client that is undefined by mistake must not store the task outside the transaction.
  if (tx === undefined) throw invalidArgument(`tx must be ${WANTED_TX}`, tx);
  if (createIn === undefined) throw noTransactions();
  return { tx, tenantId };
}

function hasQuery(value: unknown): boolean {
  return typeof (value as { readonly query?: unknown } | null)?.query === "function";
}

function noTransactions(): Error {
  const text = "enqueue with a transaction needs a PostgreSQL store (postgres://...)";
  const advice =
    "with another store, call enqueue after the commit and repeat it with the same key";
  return serviceError("INVALID_ARGUMENT", `${text}: ${advice}`);
}
