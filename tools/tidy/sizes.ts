/**
 * Sizes: no file has more than 400 lines, and few production files have more than 250. Biome
 * measures functions.
 */
import { type Finding, isCode, isForTests, isProduct, type Source } from "./source.ts";

export const MAX_LINES = 400;
export const LONG_LINES = 250;

/** How many production files may have more than `LONG_LINES` lines. Lower it when one shrinks. */
export const MAX_LONG_FILES = 22;

export function sizes(sources: readonly Source[]): Finding[] {
  return sources.filter(isCode).flatMap(({ path, text }) => {
    const lines = linesOf(text);
    if (lines <= MAX_LINES) return [];
    return [
      { path, line: 1, message: `${lines} lines, at most ${MAX_LINES}: divide it by subject` },
    ];
  });
}

export function longFiles(sources: readonly Source[], maxFiles = MAX_LONG_FILES): Finding[] {
  const long = sources
    .filter((source) => isCode(source) && isProduct(source.path) && !isForTests(source.path))
    .filter(({ text }) => linesOf(text) > LONG_LINES);
  if (long.length <= maxFiles) return [];
  const excess = `${long.length} files have more than ${LONG_LINES} lines, at most ${maxFiles}`;
  return long.map(({ path, text }) => ({
    path,
    line: 1,
    message: `${linesOf(text)} lines: ${excess}`,
  }));
}

function linesOf(text: string): number {
  return text.trimEnd().split("\n").length;
}
