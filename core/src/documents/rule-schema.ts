/**
 * Rule schema: a rule of a document as JSON Schema, for the service's API and the web form. It is a
 * separate file, so a program that only checks documents does not include it.
 */
import type { Rule } from "./document.ts";

/** The part of JSON Schema (2020-12) that rules need. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** The first argument of a rule identifies its kind: each kind starts with another type. */
export function schemaOf({ parts = [] }: Rule): JsonSchema {
  const [first, min, max] = parts;
  switch (typeof first) {
    case "undefined":
      return { type: "boolean" };
    case "number":
      return { type: max ? "number" : "integer", minimum: first, maximum: min };
    case "string":
      return { enum: parts };
    case "function":
      return { type: "array", items: schemaOf(first as Rule), minItems: min, maxItems: max };
    default:
      return { type: "string", pattern: (first as RegExp).source };
  }
}
