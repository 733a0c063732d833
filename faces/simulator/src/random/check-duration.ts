/**
 * Check duration: lists the problems of a duration in a scenario. Separate from `durations.ts`
 * because the engines only draw.
 */
import {
  checkFields,
  type FieldProblem,
  type Fields,
  fieldProblem,
  isObject,
  numberRule,
} from "@redrive/core";

const msRule = numberRule(0, 86_400_000, true);

const DURATION_FIELDS: Readonly<Record<string, Fields>> = {
  FIXED: { ms: msRule },
  UNIFORM: { minMs: msRule, maxMs: msRule },
  EXPONENTIAL: { meanMs: msRule },
  NORMAL: { meanMs: msRule, sdMs: msRule },
  LOGNORMAL: { medianMs: msRule, sigma: numberRule(0, 5, true) },
};

/** Lists every problem of the duration at `field`. */
export function checkDuration(value: unknown, field: string): FieldProblem[] {
  if (typeof value === "number") {
    const wanted = msRule(value);
    return wanted === undefined ? [] : [fieldProblem(field, value, `${field} must be ${wanted}`)];
  }
  const kinds = Object.keys(DURATION_FIELDS).join(", ");
  if (!isObject(value)) {
    return [
      fieldProblem(field, value, `${field} must be a number of ms or an object with kind ${kinds}`),
    ];
  }
  const { kind, ...rest } = value;
  const fields = typeof kind === "string" ? DURATION_FIELDS[kind] : undefined;
  if (fields === undefined) {
    return [fieldProblem(`${field}.kind`, kind, `${field}.kind must be one of ${kinds}`)];
  }
  const problems = [
    ...checkFields(rest, fields, `${field}.`),
    ...missingFields(rest, Object.keys(fields), `${field}.`),
  ];
  const { minMs, maxMs } = rest;
  if (problems.length === 0 && (maxMs as number) < (minMs as number)) {
    problems.push(
      fieldProblem(`${field}.maxMs`, maxMs, `${field}.maxMs must be at least ${minMs}`),
    );
  }
  return problems;
}

/** Reports each of `names` that `part` lacks. */
export function missingFields(
  part: Readonly<Record<string, unknown>>,
  names: readonly string[],
  prefix: string,
): FieldProblem[] {
  return names
    .filter((name) => part[name] === undefined)
    .map((name) => fieldProblem(prefix + name, undefined, `${prefix}${name} must be given`));
}
