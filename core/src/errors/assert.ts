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

/** An error for incorrect use. Its message is `text` and then the value, as `shown`. */
export function invalidArgument(
  text: string,
  value: unknown,
  shown: string = quote(value),
): RedriveError {
  return new RedriveError("INVALID_ARGUMENT", `${text}, got ${shown}`);
}

/** A value as it is shown in an error message, at most one line long. */
export function quote(value: unknown): string {
  let text: string = typeof value;
  try {
    text = text === "number" ? String(value) : (JSON.stringify(value) ?? text);
  } catch {
    // A value that is not JSON is shown by its type.
  }
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}
