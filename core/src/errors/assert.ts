/**
 * Assert: bounds that are stated are bounds that are checked, in the same words. For arguments
 * of functions; documents have `document.ts`.
 */
import { RedriveError } from "./errors.ts";

/** Throws unless `value` is a number with `min <= value <= max`. */
export function assertRange(name: string, value: number, min: number, max: number): void {
  if (typeof value === "number" && value >= min && value <= max) return;
  throw invalidArgument(`${name} must be ${min} to ${max}`, value);
}

/** An error of use. Its message is `text`, and then the value. */
export function invalidArgument(text: string, value: unknown): RedriveError {
  return new RedriveError("INVALID_ARGUMENT", `${text}, got ${quote(value)}`);
}

/** A value as a reader of an error message would write it, never longer than a line. */
export function quote(value: unknown): string {
  const text = typeof value === "number" ? String(value) : spell(value);
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}

function spell(value: unknown): string {
  try {
    return JSON.stringify(value) ?? typeof value;
  } catch {
    return typeof value;
  }
}
