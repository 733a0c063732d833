/**
 * Changes: the difference between two documents, field by field. Both are compared with their defaults
 * filled in, so that a removed field shows the default that applies instead.
 */
import { formatDuration, isObject } from "@redrive/core";

export interface Change {
  /** The path of the field, such as `breaker.failureRate`. */
  readonly field: string;
  readonly before: string;
  readonly after: string;
}

type Fields = Readonly<Record<string, unknown>>;

/** `before` and `after` have their defaults filled in. */
export function changesOf(before: Fields, after: Fields): readonly Change[] {
  const [old, next] = [flattened(before), flattened(after)];
  const fields = new Set([...old.keys(), ...next.keys()]);
  return [...fields].flatMap((field) => {
    const [one, other] = [old.get(field), next.get(field)];
    if (JSON.stringify(one) === JSON.stringify(other)) return [];
    return [{ field, before: textOf(field, one), after: textOf(field, other) }];
  });
}

/** Leaves by path. A list is a leaf. */
function flattened(fields: Fields, prefix = ""): ReadonlyMap<string, unknown> {
  const leaves = new Map<string, unknown>();
  for (const [name, value] of Object.entries(fields)) {
    const path = `${prefix}${name}`;
    if (isObject(value) && !Array.isArray(value)) {
      for (const [field, leaf] of flattened(value, `${path}.`)) leaves.set(field, leaf);
    } else if (value !== undefined) {
      leaves.set(path, value);
    }
  }
  return leaves;
}

function textOf(field: string, value: unknown): string {
  if (value === undefined || value === false) return "off";
  if (value === null) return "none";
  if (typeof value === "number" && field.endsWith("Ms")) return formatDuration(value);
  if (Array.isArray(value)) {
    if (value.length === 0) return "none";
    return value.map((one) => textOf(field, one)).join(", ");
  }
  return value === true ? "on" : String(value);
}
