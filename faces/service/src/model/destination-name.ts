/**
 * Destination name: which names a destination may have. Every name must fit into one segment of a
 * URL path. A URL parser resolves "." and "..", also when they are percent-encoded, so nobody could
 * read or pause such a destination.
 */
import { DocumentError, fieldProblem, type Rule, textRule } from "@redrive/core";

const WANTED = '1 to 255 visible ASCII characters and not "." or ".."';

export const destinationNameRule: Rule = textRule(/^(?!\.{1,2}$)[\x21-\x7e]{1,255}$/, WANTED);

/** Throws `INVALID_DESTINATION`. */
export function assertDestinationName(name: unknown): void {
  if (destinationNameRule(name) === undefined) return;
  const problem = fieldProblem("name", name, `name must be ${WANTED}`);
  throw new DocumentError("INVALID_DESTINATION", [problem]);
}
