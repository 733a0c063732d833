/**
 * Protocol buffers in JSON: a field has two spellings, snake_case and camelCase, and a number may be in a
 * wrapper. Readers of such configurations use these functions and see one form.
 */
import { isObject } from "../documents/document.ts";
import type { Part } from "./config-reader.ts";

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
