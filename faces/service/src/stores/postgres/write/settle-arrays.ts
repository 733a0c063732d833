/** Settle arrays: the settlements of a batch as arrays, in the order of `schema/batch-cells.ts`. */
import type { Settle } from "../../../model/batch.ts";
import { byteaArray, int8Array, textArray } from "../connection/binary-array.ts";
import type { Param } from "../connection/cells.ts";
import { logOf } from "../rows/attempt-rows.ts";
import { laneNumber, statusNumber } from "../rows/codes.ts";
import { Waves } from "./waves.ts";

/** Null: there are none. */
export function settleArrays(settles: readonly Settle[]): readonly Param[] {
  if (settles.length === 0) return [null, null, null];
  const waves = new Waves();
  const numbers: (number | null)[] = [];
  const texts: (string | null)[] = [];
  const bodies: (Uint8Array | null)[] = [];
  for (const settle of settles) {
    const { attempt, lastError } = settle;
    numbers.push(
      settle.claimEpoch,
      statusNumber(settle.status),
      laneNumber(settle.lane),
      settle.nextAttemptAt,
      settle.lastDelayMs,
      settle.abandonedCount,
      attempt?.attemptNumber ?? null,
      attempt?.responseStatus ?? null,
      attempt === null && lastError === undefined ? 1 : 0,
      waves.next([`${settle.tenantId}\n${settle.taskId}`]),
    );
    texts.push(
      settle.tenantId,
      settle.taskId,
      settle.reason,
      attempt && logOf(attempt),
      attempt === null ? (lastError ?? null) : attempt.errorMessage,
    );
    bodies.push(attempt?.responseBody ?? null);
  }
  return [int8Array(numbers), textArray(texts), byteaArray(bodies)];
}
