/**
 * Config reader: reads the configuration of another system, one value at a time. Bad input always
 * gives an `INVALID_IMPORT` that names the field and quotes the value. A setting that can be read but
 * not kept becomes a note, for a person to check.
 */
import { checkPolicy, type PolicyDocument } from "../decide/policy.ts";
import { isObject } from "../documents/document.ts";
import { quote, RedriveError } from "../documents/errors.ts";
import { parseDuration } from "../documents/format.ts";
import type { DestinationDocument } from "../guards/destination.ts";

/** A destination without its policy: the guards. */
export type DestinationParts = Omit<DestinationDocument, "policy">;

/** The result of importing another system's configuration. */
export interface Imported {
  readonly policy: PolicyDocument;
  readonly destination: DestinationParts;
  /** Full sentences about what was changed, assumed or lost. */
  readonly notes: readonly string[];
}

export type Part = Readonly<Record<string, unknown>>;

export function refuse(field: string, wanted: string, value: unknown): never {
  throw new RedriveError("INVALID_IMPORT", `${field} must be ${wanted}, got ${quote(value)}`);
}

export function readObject(value: unknown, field: string): Part {
  return isObject(value) ? value : refuse(field, "an object", value);
}

export function readList(value: unknown, field: string): readonly unknown[] {
  return Array.isArray(value) ? value : refuse(field, "a list", value);
}

export function readText(value: unknown, field: string): string {
  return typeof value === "string" ? value : refuse(field, "a text", value);
}

/** An integer of at least `min`. */
export function readInteger(value: unknown, field: string, min: number): number {
  return Number.isSafeInteger(value) && (value as number) >= min
    ? (value as number)
    : refuse(field, `a whole number of at least ${min}`, value);
}

/** A number above zero. */
export function readPositive(value: unknown, field: string): number {
  return typeof value === "number" && value > 0 && value < Number.POSITIVE_INFINITY
    ? value
    : refuse(field, "a number above 0", value);
}

/** A duration as protocol buffers write it in JSON, such as "0.1s"; in ms. */
export function readSeconds(value: unknown, field: string): number {
  const isSeconds = typeof value === "string" && /\ds$/.test(value);
  const durationMs = isSeconds ? parseDuration(value) : undefined;
  return durationMs ?? refuse(field, 'seconds such as "0.1s", to the millisecond', value);
}

export function readPositiveSeconds(value: unknown, field: string): number {
  const durationMs = readSeconds(value, field);
  return durationMs > 0 ? durationMs : refuse(field, "above 0 s", value);
}

/** JSON from protocol buffers writes an unset field as null, or not at all. */
export function isSet(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** Clamps the value to its range; a note says so if that changed it. */
export function clampWithNote(
  notes: string[],
  field: string,
  value: number,
  [min, max]: readonly [number, number],
): number {
  const kept = Math.min(max, Math.max(min, value));
  if (kept !== value)
    notes.push(`${field} ${value} became ${kept}: the range is ${min} to ${max}.`);
  return kept;
}

/** The complete import. Fields that are good one by one may still not fit together in a policy. */
export function imported(
  policy: PolicyDocument,
  destination: DestinationParts,
  notes: readonly string[],
): Imported {
  const problems = checkPolicy(policy).map((problem) => problem.message);
  if (problems.length === 0) return { policy, destination, notes };
  throw new RedriveError("INVALID_IMPORT", `as a policy of Redrive ${problems.join("; ")}`);
}

/** Adds a note with the fields that are set but that the other system cannot express. */
export function addLostNote(
  notes: string[],
  system: string,
  document: object,
  kept: readonly string[],
): void {
  const lost = Object.entries(document)
    .filter(([name, value]) => value !== undefined && value !== false && !kept.includes(name))
    .map(([name]) => name);
  if (lost.length > 0) notes.push(`${system} cannot express ${lost.join(", ")}; left out.`);
}

// Protocol buffers in JSON: a field has two spellings, snake_case and camelCase, and a number may be in a
// wrapper. Readers of such configurations use these functions and see one form.

/** The value of a field named in snake_case, in either spelling. */
export function fieldOf(part: Part, name: string): unknown {
  const camel = name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
  return own(part, name) ?? own(part, camel);
}

function own(part: Part, name: string): unknown {
  return Object.hasOwn(part, name) ? part[name] : undefined;
}

/** The value inside a wrapper such as UInt32Value or Percent, or the value itself. */
export function numberOf(value: unknown): unknown {
  return isObject(value) && Object.hasOwn(value, "value") ? value["value"] : value;
}
