/**
 * Plain object: tells an object of fields from an instance of a class. The entries of a `Map`, a
 * `Headers` or a promise are not its fields, so reading its fields would lose them.
 */
import { isObject } from "@redrive/core";

/** True for `{}`, also from another realm, and for an object without a prototype. */
export function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (!isObject(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
