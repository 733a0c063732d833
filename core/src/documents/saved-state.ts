/**
 * Saved state: reads the saved state of a guard. The value may come from an older version or from
 * anybody. Each guard declares its fields in a table; a value that does not fit is refused by name.
 */
import {
  checkFields,
  DocumentError,
  isObject,
  mustBeProblem,
  numberRule,
  type Rule,
} from "./document.ts";

/** Saved numbers stay within the range in which integers are exact. */
const MAX_EXACT = Number.MAX_SAFE_INTEGER;

/** An instant: whole epoch ms. */
export const instantRule: Rule = numberRule(0, MAX_EXACT);

/** A counter that only grows. */
export const countRule: Rule = numberRule(0, MAX_EXACT);

/** A measured amount; may be fractional. */
export const amountRule: Rule = numberRule(0, MAX_EXACT, true);

/** A nested part that has its own reader. */
export const partRule: Rule = () => undefined;

/** The version of every saved guard. A new format gets a new number. */
export const versionRule: Rule = numberRule(1, 1);

/** The rules of a saved value of type `T`: exactly its fields. */
export type SavedFields<T> = { readonly [field in keyof T]: Rule };

/** Returns `saved` as a `T`, or throws `INVALID_ARGUMENT` that names each bad, unknown or absent field. */
export function readSavedState<T>(name: string, saved: unknown, fields: SavedFields<T>): T {
  const problems = checkFields(saved, fields, `${name}.`);
  if (isObject(saved)) {
    for (const field of Object.keys(fields)) {
      if (saved[field] !== undefined) continue;
      problems.push(mustBeProblem(`${name}.${field}`, undefined, "present"));
    }
  }
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
  return saved as T;
}
