/**
 * Document: reads JSON documents against a table of fields and says what is wrong with them, field
 * by field, quoting the bad value. Policy and destination are both read by it, so that every face
 * refuses the same documents in the same words.
 */
import { quote } from "./assert.ts";
import { type ErrorCode, RedriveError } from "./errors.ts";

/** One thing wrong with a document. */
export interface Problem {
  /** Path of the field, e.g. `maxAttempts` or `breaker.openMs`; empty for the document itself. */
  readonly field: string;
  readonly value: unknown;
  /** A whole sentence that names the field and quotes the value. */
  readonly message: string;
}

/** Says what a value should be; undefined when it is that. */
export interface Rule {
  (value: unknown): string | undefined;
  /** The same rule as JSON Schema, for the service's API and the web form. */
  readonly schema?: JsonSchema;
}

/** As much of JSON Schema (2020-12) as rules need. */
export type JsonSchema = Readonly<Record<string, unknown>>;

export type Fields = Readonly<Record<string, Rule>>;

/** Thrown for a document that is refused; `problems` has all of them, the message the first. */
export class DocumentError extends RedriveError {
  readonly problems: readonly Problem[];

  constructor(code: ErrorCode, problems: readonly Problem[]) {
    super(code, problems.map((problem) => problem.message).join("; "));
    this.problems = problems;
  }
}

/** A number from `min` to `max`, whole unless `fraction`. */
export function numberRule(min: number, max: number, fraction = false): Rule {
  const wanted = `a ${fraction ? "" : "whole "}number from ${min} to ${max}`;
  const isGood = (value: unknown) =>
    typeof value === "number" &&
    value >= min &&
    value <= max &&
    (fraction || Math.floor(value) === value);
  const schema = { type: fraction ? "number" : "integer", minimum: min, maximum: max };
  return ruleOf(isGood, wanted, schema);
}

export function choiceRule(...choices: readonly string[]): Rule {
  const isGood = (value: unknown) => choices.includes(value as string);
  return ruleOf(isGood, `one of ${choices.join(", ")}`, { enum: choices });
}

export function textRule(pattern: RegExp, wanted: string): Rule {
  const isGood = (value: unknown) => typeof value === "string" && pattern.test(value);
  return ruleOf(isGood, wanted, { type: "string", pattern: pattern.source });
}

export const booleanRule: Rule = ruleOf((value) => typeof value === "boolean", "true or false", {
  type: "boolean",
});

/** A list of `min` to `max` entries that each pass `rule`. */
export function listRule(rule: Rule, min: number, max: number): Rule {
  const check = (value: unknown) => {
    if (!Array.isArray(value) || value.length < min || value.length > max) {
      return `a list of ${min} to ${max} entries`;
    }
    for (const entry of value) {
      const wanted = rule(entry);
      if (wanted !== undefined) return `a list in which each entry is ${wanted}`;
    }
    return undefined;
  };
  const schema = { type: "array", items: rule.schema ?? {}, minItems: min, maxItems: max };
  return Object.assign(check, { schema });
}

function ruleOf(isGood: (value: unknown) => boolean, wanted: string, schema: JsonSchema): Rule {
  const check = (value: unknown) => (isGood(value) ? undefined : wanted);
  return Object.assign(check, { schema });
}

/** True for what JSON calls an object. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Checks each field by its own rule. `undefined` counts as left out. `prefix` ends in a dot. */
export function checkFields(document: unknown, fields: Fields, prefix = ""): Problem[] {
  if (!isObject(document)) {
    const name = prefix.slice(0, -1);
    return [problem(name, document, `${name || "the document"} must be an object`)];
  }
  const problems: Problem[] = [];
  for (const name of Object.keys(document)) {
    const value = document[name];
    if (value === undefined) continue;
    const rule = Object.hasOwn(fields, name) ? fields[name] : undefined;
    const wanted = rule?.(value);
    if (rule === undefined) problems.push(unknownField(prefix, name, value, Object.keys(fields)));
    else if (wanted !== undefined) {
      problems.push(problem(prefix + name, value, `${prefix}${name} must be ${wanted}`));
    }
  }
  return problems;
}

/** A problem whose message ends by quoting the value. */
export function problem(field: string, value: unknown, text: string): Problem {
  return { field, value, message: `${text}, got ${quote(value)}` };
}

function unknownField(
  prefix: string,
  name: string,
  value: unknown,
  known: readonly string[],
): Problem {
  const near = nearest(name, known);
  const hint = near === undefined ? "" : `, did you mean ${quote(near)}?`;
  return { field: prefix + name, value, message: `unknown field ${quote(prefix + name)}${hint}` };
}

/** The known name closest to a misspelt one, if any is close enough to be meant. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  let best: string | undefined;
  let bestDistance = Number.POSITIVE_INFINITY;
  for (const candidate of known) {
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase());
    const near = distance <= Math.max(2, Math.floor(candidate.length / 3));
    if (near && distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** Levenshtein's distance, one row at a time; names are cut at 64 so that the work is bounded. */
function editDistance(a: string, b: string): number {
  const from = a.slice(0, 64);
  const to = b.slice(0, 64);
  let row = Array.from({ length: to.length + 1 }, (_, i) => i);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const swap = (row[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(swap, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
