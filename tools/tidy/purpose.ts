/**
 * Purpose: checks that every source file opens with a comment of one to eight lines that states its
 * purpose.
 */
import { type Finding, isCode, type Source } from "./source.ts";

const MIN_SENTENCE = 20;
const MAX_LINES = 8;

export function purpose(sources: readonly Source[]): Finding[] {
  return sources.filter(isCode).flatMap(({ path, text }) => {
    const message = refuse(text);
    return message === undefined ? [] : [{ path, line: 1, message }];
  });
}

function refuse(text: string): string | undefined {
  const opening = /^(?:#![^\n]*\n)?\/\*\*([\s\S]*?)\*\//u.exec(text)?.[1];
  if (opening === undefined) return "has no opening comment: state its purpose in a sentence";
  const lines = opening
    .split("\n")
    .map((line) => line.replace(/^\s*\*? ?/u, "").trim())
    .filter((line) => line !== "");
  if (lines.length > MAX_LINES)
    return `opening comment has ${lines.length} lines, at most ${MAX_LINES}`;
  const sentence = /^.*?[.:!?](?=\s|$)/u.exec(lines.join(" "))?.[0] ?? "";
  const prose = lines.join(" ");
  if (prose.length < MIN_SENTENCE || sentence === "" || !/[.!?]$/u.test(prose)) {
    return `opening comment is not a sentence (at least ${MIN_SENTENCE} characters and a period)`;
  }
  return undefined;
}
