/**
 * Assert: checks the bounds of function arguments, with messages that state the bounds. Documents
 * are checked by `document.ts`.
 */
import { RedriveError } from "./errors.ts";

/** Throws unless `value` is a number with `min <= value <= max`. */
export function assertRange(name: string, value: number, min: number, max: number): void {
  if (typeof value === "number" && value >= min && value <= max) return;
  throw invalidArgument(`${name} must be ${min} to ${max}`, value);
}

/** An error for incorrect use. Its message is `text` and then the value. */
export function invalidArgument(text: string, value: unknown): RedriveError {
  return new RedriveError("INVALID_ARGUMENT", `${text}, got ${quote(value)}`);
}

/** A value as it is shown in an error message, at most one line long. */
export function quote(value: unknown): string {
  const text = typeof value === "number" ? String(value) : textOf(value);
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}

function textOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? typeof value;
  } catch {
    return typeof value;
  }
}
