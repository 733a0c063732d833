/**
 * Saved: reads what a guard saved. The value may come from a row that an older version, or
 * anybody, has written; each guard states its fields as a table, and what does not fit is refused
 * by name.
 */
import {
  checkFields,
  DocumentError,
  fieldProblem,
  isObject,
  numberRule,
  type Rule,
} from "./document.ts";

/** Saved numbers reach no further than whole numbers are exact. */
const LARGEST = Number.MAX_SAFE_INTEGER;

/** An instant: whole epoch ms. */
export const instantRule: Rule = numberRule(0, LARGEST);

/** A tally that only grows. */
export const countRule: Rule = numberRule(0, LARGEST);

/** A measured amount, not necessarily whole. */
export const amountRule: Rule = numberRule(0, LARGEST, true);

/** A part that has a reader of its own. */
export const partRule: Rule = () => undefined;

/** Every saved guard is of this version; a later shape gets a later number. */
export const versionRule: Rule = numberRule(1, 1);

/** The rules of a saved value of type `T`: all of its fields, no others. */
export type SavedFields<T> = { readonly [field in keyof T]: Rule };

/** Returns `saved` as a `T`, or throws `INVALID_ARGUMENT` naming each bad, unknown or absent field. */
export function readSavedState<T>(name: string, saved: unknown, fields: SavedFields<T>): T {
  const problems = checkFields(saved, fields, `${name}.`);
  if (isObject(saved)) {
    for (const field of Object.keys(fields)) {
      if (saved[field] !== undefined) continue;
      problems.push(
        fieldProblem(`${name}.${field}`, undefined, `${name}.${field} must be present`),
      );
    }
  }
  if (problems.length > 0) throw new DocumentError("INVALID_ARGUMENT", problems);
  return saved as T;
}
