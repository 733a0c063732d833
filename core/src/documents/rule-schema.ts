/**
 * Rule schema: a rule of a document as JSON Schema, for the service's API and the web form. Apart
 * from the rules, so that a program that only has its documents checked does not carry it.
 */
import type { Rule } from "./document.ts";

/** As much of JSON Schema (2020-12) as rules need. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** A rule is known by the first of its parts: each kind begins with another type. */
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
