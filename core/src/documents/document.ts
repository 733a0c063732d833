/**
 * Document: checks a JSON document against a table of fields and reports every problem, with the
 * field's name and the bad value. Policies and destinations both use it, so the library, the service
 * and the simulator refuse the same documents with the same messages.
 */
import { suggestName } from "#suggest-name";
import { type ErrorCode, quote, RedriveError, type RedriveErrorDetails } from "./errors.ts";

/** One problem of a document. */
export interface FieldProblem {
  /** Path of the field, e.g. `maxAttempts` or `breaker.openMs`; empty for the document itself. */
  readonly field: string;
  readonly value: unknown;
  /** A full sentence that names the field and quotes the value. */
  readonly message: string;
  /** The field is not part of the document. A newer version may know it. */
  readonly isUnknown?: true;
}

/** Returns a description of the expected value, or undefined if the value is good. */
export interface Rule {
  (value: unknown): string | undefined;
  /** The arguments the rule was made from. `policy-schema.ts` writes them as JSON Schema. */
  readonly parts?: readonly unknown[];
}

export type Fields = Readonly<Record<string, Rule>>;

/** Thrown for a document that is refused. `problems` has all problems; the message is the first one. */
export class DocumentError extends RedriveError {
  readonly problems: readonly FieldProblem[];

  constructor(
    code: ErrorCode,
    problems: readonly FieldProblem[],
    details: RedriveErrorDetails = {},
  ) {
    super(code, problems.map(({ message }) => message).join("; "), details);
    this.problems = problems;
  }
}

/** A number from `min` to `max`; an integer unless `fraction`. */
export function numberRule(min: number, max: number, fraction = false): Rule {
  const wanted = `a ${fraction ? "" : "whole "}number from ${min} to ${max}`;
  const isGood = (value: unknown) =>
    typeof value === "number" && value >= min && value <= max && (fraction || value % 1 === 0);
  return ruleOf(isGood, wanted, min, max, fraction);
}

export function choiceRule(...choices: readonly string[]): Rule {
  const isGood = (value: unknown) => choices.includes(value as string);
  return ruleOf(isGood, `one of ${choices.join(", ")}`, ...choices);
}

export function textRule(pattern: RegExp, wanted: string): Rule {
  return ruleOf((value) => typeof value === "string" && pattern.test(value), wanted, pattern);
}

export const booleanRule: Rule = ruleOf((value) => typeof value === "boolean", "true or false");

/** A list of `min` to `max` entries that each pass `rule`. */
export function listRule(rule: Rule, min: number, max: number): Rule {
  const check = (value: unknown) => {
    if (!Array.isArray(value) || value.length < min || value.length > max) {
      return `a list of ${min} to ${max} entries`;
    }
    const wanted = value.map(rule).find(Boolean);
    return wanted && `a list in which each entry is ${wanted}`;
  };
  return Object.assign(check, { parts: [rule, min, max] });
}

function ruleOf(
  isGood: (value: unknown) => boolean,
  wanted: string,
  ...parts: readonly unknown[]
): Rule {
  const check = (value: unknown) => (isGood(value) ? undefined : wanted);
  return Object.assign(check, { parts });
}

/** True for a JSON object. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Checks each field with its own rule. `undefined` counts as absent. `prefix` ends in a dot. Without a
 * prefix, `what` names the document in the message about one that is not an object.
 */
export function checkFields(
  document: unknown,
  fields: Fields,
  prefix = "",
  what = "options",
): FieldProblem[] {
  if (!isObject(document)) {
    const name = prefix.slice(0, -1);
    return [fieldProblem(name, document, `${name || what} must be an object`)];
  }
  const problems: FieldProblem[] = [];
  for (const [name, value] of Object.entries(document)) {
    if (value === undefined) continue;
    const field = prefix + name;
    if (Object.hasOwn(fields, name)) {
      const wanted = fields[name]?.(value);
      if (wanted) problems.push(mustBeProblem(field, value, wanted));
      continue;
    }
    const near = suggestName(name, Object.keys(fields), value);
    const hint = near ? `, did you mean ${quote(near)}?` : "";
    const message = `unknown field ${quote(field)}${hint}`;
    problems.push({ field, value, message, isUnknown: true });
  }
  return problems;
}

/** A problem whose message quotes the value at the end. */
export function fieldProblem(field: string, value: unknown, text: string): FieldProblem {
  return { field, value, message: `${text}, got ${quote(value)}` };
}

/** A problem of a field that does not have the expected value. */
export function mustBeProblem(field: string, value: unknown, wanted: string): FieldProblem {
  return fieldProblem(field, value, `${field} must be ${wanted}`);
}

// The saved state of a guard. The value may come from an older version or from anybody. Each guard declares
// its fields in a table; a value that does not fit is refused by name.

/** Saved numbers stay within the range in which integers are exact. */
const MAX_EXACT = Number.MAX_SAFE_INTEGER;

/** An instant: whole epoch ms. */
export const instantRule: Rule = /* @__PURE__ */ numberRule(0, MAX_EXACT);

/** A counter that only grows. */
export const countRule: Rule = /* @__PURE__ */ numberRule(0, MAX_EXACT);

/** A measured amount; may be fractional. */
export const amountRule: Rule = /* @__PURE__ */ numberRule(0, MAX_EXACT, true);

/** A nested part that has its own reader. */
export const partRule: Rule = () => undefined;

/** The version of every saved guard. A new format gets a new number. */
export const versionRule: Rule = /* @__PURE__ */ numberRule(1, 1);

/** The rules of a saved value of type `T`: exactly its fields. */
type SavedFields<T> = { readonly [field in keyof T]: Rule };

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
