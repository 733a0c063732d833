/**
 * Sizes: checks that no file has more than 400 lines and no test more than 600. Files that were too
 * long before this rule are listed with their length and may only shrink. Biome checks functions.
 */
import { type Finding, isCode, isForTests, type Source } from "./source.ts";

const MAX_LINES = 400;
const MAX_TEST_LINES = 600;

export type Ratchet = Readonly<Record<string, number>>;

/** Files that are too long, with their length. Lower a number when its file shrinks; add no files. */
export const RATCHET: Ratchet = {};

export function sizes(sources: readonly Source[], ratchet: Ratchet = RATCHET): Finding[] {
  return sources.filter(isCode).flatMap((source) => {
    const message = refuse(source, ratchet);
    return message === undefined ? [] : [{ path: source.path, line: 1, message }];
  });
}

function refuse({ path, text }: Source, ratchet: Ratchet): string | undefined {
  const lines = text.trimEnd().split("\n").length;
  const max = isForTests(path) ? MAX_TEST_LINES : MAX_LINES;
  const listed = Object.hasOwn(ratchet, path) ? ratchet[path] : undefined;
  if (listed === undefined) {
    return lines > max ? `${lines} lines, at most ${max}: split it` : undefined;
  }
  if (lines <= max) return `${lines} lines: take it out of the ratchet`;
  if (lines > listed) return `${lines} lines, but the ratchet has ${listed}: it may only shrink`;
  return lines < listed ? `${lines} lines: lower the ratchet from ${listed}` : undefined;
}
