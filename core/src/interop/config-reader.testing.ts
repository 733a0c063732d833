/**
 * Shared by the import tests: a check that a reader refuses only with INVALID_IMPORT, and good documents
 * with one bad value, which get further into a reader than random input would.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { checkPolicy } from "../decide/policy.ts";
import { isObject } from "../documents/document.ts";
import { RedriveError } from "../documents/errors.ts";
import { checkDestination } from "../guards/destination.ts";
import type { Imported } from "./config-reader.ts";

/** The import is a valid policy with notes in full sentences, or the refusal is an INVALID_IMPORT. */
export function expectImportOrRefusal(read: () => Imported): void {
  try {
    const { policy, destination, notes } = read();
    expect(checkPolicy(policy)).toEqual([]);
    expect(checkDestination(destination)).toEqual([]);
    for (const note of notes) expect(note).toMatch(/^\S.*\.$/s);
  } catch (error) {
    if (!(error instanceof RedriveError)) throw error;
    expect(error.code).toBe("INVALID_IMPORT");
  }
}

/** The document with one of its values, at any depth, replaced by another. */
export function withBadValue(document: unknown): fc.Arbitrary<unknown> {
  const paths = pathsOf(document);
  const values = fc.oneof(
    fc.jsonValue(),
    fc.anything(),
    fc.constantFrom("-1s", "1e9s", 0, -1, 1e9),
  );
  return fc
    .tuple(fc.constantFrom(...paths), values)
    .map(([path, value]) => replaced(document, path, value));
}

type Path = readonly string[];

function pathsOf(value: unknown): Path[] {
  const inner = isObject(value) || Array.isArray(value) ? Object.entries(value) : [];
  return [[], ...inner.flatMap(([key, one]) => pathsOf(one).map((path) => [key, ...path]))];
}

function replaced(value: unknown, [key, ...rest]: Path, by: unknown): unknown {
  if (key === undefined) return by;
  if (Array.isArray(value)) {
    return value.map((one, index) => (String(index) === key ? replaced(one, rest, by) : one));
  }
  const part = value as Record<string, unknown>;
  return { ...part, [key]: replaced(part[key], rest, by) };
}
