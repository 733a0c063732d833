/**
 * Failure: which errors of Redis say that nothing was done because there is no space. All others
 * leave open what was done.
 */
import { StoreFullError } from "../../../model/store-errors.ts";

/**
 * OOM: the memory limit is reached. MISCONF: the log cannot be written, mostly because the disk is
 * full. The server refuses both before the first write of a script.
 */
function isFull(error: unknown): boolean {
  return (
    error instanceof Error &&
    /^(?:ERR )?(?:OOM|MISCONF)\b|: -?(?:OOM|MISCONF) /u.test(error.message)
  );
}

/**
 * Waits for all parts of a write, so that a later call does not overtake one of them, and then throws
 * the first error. `mayHaveWritten`: an earlier part of the same write was done.
 */
export async function allDone<Result>(
  parts: readonly Promise<Result>[],
  mayHaveWritten = false,
): Promise<readonly Result[]> {
  const results = await Promise.allSettled(parts);
  const errors = results.flatMap((one) =>
    one.status === "rejected" ? [one.reason as unknown] : [],
  );
  if (errors.length === 0) {
    return results.map((one) => (one as PromiseFulfilledResult<Result>).value);
  }
  const [first] = errors;
  const isNothingDone = !mayHaveWritten && errors.length === parts.length && errors.every(isFull);
  if (!isNothingDone || !(first instanceof Error)) throw first;
  throw new StoreFullError(first.message, { cause: first });
}
