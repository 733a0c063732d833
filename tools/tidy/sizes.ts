/**
 * Sizes: no file over 400 lines, no test over 600. What was too long when the rule came is listed
 * with its length and may only shrink. Functions are Biome's to measure.
 */
import { type Finding, isCode, isForTests, type Source } from "./source.ts";

const MAX_LINES = 400;
const MAX_TEST_LINES = 600;

export type Ratchet = Readonly<Record<string, number>>;

/** Known giants and their length today. Lower a number when its file shrinks; add none. */
export const RATCHET: Ratchet = {};

export function sizes(sources: readonly Source[], ratchet: Ratchet = RATCHET): Finding[] {
  return sources.filter(isCode).flatMap((source) => {
    const message = refuse(source, ratchet);
    return message === undefined ? [] : [{ path: source.path, line: 1, message }];
  });
}

function refuse({ path, text }: Source, ratchet: Ratchet): string | undefined {
  const lines = text.trimEnd().split("\n").length;
  const most = isForTests(path) ? MAX_TEST_LINES : MAX_LINES;
  const listed = Object.hasOwn(ratchet, path) ? ratchet[path] : undefined;
  if (listed === undefined) {
    return lines > most ? `${lines} lines, at most ${most}: split it by its nouns` : undefined;
  }
  if (lines <= most) return `${lines} lines now: take it out of the ratchet`;
  if (lines > listed) return `${lines} lines, and the ratchet says ${listed}: it may only shrink`;
  return lines < listed ? `${lines} lines: lower the ratchet from ${listed}` : undefined;
}
