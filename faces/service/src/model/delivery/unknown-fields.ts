/** Unknown fields: removes the fields that this version does not know from a document of another one. */
import { type FieldProblem, isObject } from "@redrive/core";

type Fieldset = Readonly<Record<string, unknown>>;

export interface KnownFields {
  /** Without the unknown fields. */
  readonly document: Fieldset;
  /** One per field that was removed. */
  readonly unknown: readonly FieldProblem[];
  /** Of the fields that this version knows. */
  readonly problems: readonly FieldProblem[];
}

/** Removing unknown fields can reveal further problems, at most once per level of a document. */
const MAX_ROUNDS = 5;

export function withoutUnknown(
  document: Fieldset,
  check: (document: Fieldset) => readonly FieldProblem[],
): KnownFields {
  const unknown: FieldProblem[] = [];
  let known = document;
  for (let round = 0; ; round++) {
    const problems = check(known);
    const found = problems.filter(({ isUnknown }) => isUnknown);
    if (found.length === 0 || round === MAX_ROUNDS) return { document: known, unknown, problems };
    unknown.push(...found);
    known = found.reduce((rest, { field }) => withoutField(rest, field), known);
  }
}

/** `field` is a path such as `breaker.openMs`. The name of an unknown field may contain dots. */
function withoutField(document: Fieldset, field: string): Fieldset {
  const { [field]: _, ...rest } = document;
  if (Object.hasOwn(document, field)) return rest;
  const [name = "", ...path] = field.split(".");
  const part = document[name];
  return isObject(part) ? { ...document, [name]: withoutField(part, path.join(".")) } : document;
}
