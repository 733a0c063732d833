/**
 * Batch cells: the values of new tasks and of settlements, as `commit_batch` receives them: all numbers
 * of all items in one array, and all texts in another. `write/batch-params.ts` writes them in this order.
 */

/** `wave`: items of one batch that use the same key or source are inserted one after the other. */
const CREATE_NUMBERS = [
  ...(["place", "policyVersion", "createdAt", "scheduledAt", "claimVersion"] as const),
  ...(["partition", "wave"] as const),
] as const;
/** `labels`: null, or pairs of a name and a value in JSON. */
const CREATE_TEXTS = [
  ...(["taskId", "idempotencyKey", "fingerprint", "policyId", "redrivenFrom"] as const),
  ...(["labels", "payload"] as const),
] as const;

/** `attemptNumber`: null if no request was sent. `keepsError`: 1 if the last error stays. */
const SETTLE_NUMBERS = [
  ...(["claimEpoch", "status", "lane", "nextAttemptAt", "lastDelayMs", "abandonedCount"] as const),
  ...(["attemptNumber", "lastStatus", "keepsError", "wave"] as const),
] as const;
/** `claimedBy`: null if the node of the commit has the claim. */
const SETTLE_TEXTS = [
  ...(["tenantId", "taskId", "claimedBy", "reason", "log", "lastError"] as const),
] as const;

/** A function of the SQL expression for a value of item `i`, which is counted from 1. */
function cellsOf<Name extends string>(
  array: string,
  names: readonly Name[],
): (name: Name, item?: string) => string {
  const count = names.length;
  return (name, item = "i") => `${array}[${count} * ${item} - ${count - 1 - names.indexOf(name)}]`;
}

/** The arguments that hold the new tasks of a batch, and expressions for their values. */
export const CREATE_ARGUMENTS = "names text[], numbers bigint[], texts text[], bodies bytea[]";
export const createNumber: (name: (typeof CREATE_NUMBERS)[number], item?: string) => string =
  cellsOf("numbers", CREATE_NUMBERS);
export const createText: (name: (typeof CREATE_TEXTS)[number], item?: string) => string = cellsOf(
  "texts",
  CREATE_TEXTS,
);
/** The tenant of a new task is that of its destination: `names` has pairs of both. */
export const createTenant = (item = "i") => `names[2 * ${createNumber("place", item)} - 1]`;

export const SETTLE_ARGUMENTS = "numbers bigint[], texts text[], bodies bytea[]";
export const settleNumber: (name: (typeof SETTLE_NUMBERS)[number]) => string = cellsOf(
  "numbers",
  SETTLE_NUMBERS,
);
export const settleText: (name: (typeof SETTLE_TEXTS)[number]) => string = cellsOf(
  "texts",
  SETTLE_TEXTS,
);
