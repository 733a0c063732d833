/**
 * Purpose: every source file opens with what it is for, in a comment of one to eight lines whose
 * first sentence is a real one. That sentence is the file's line in docs/modules.md.
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
  if (opening === undefined) return "opens with no comment: say in a sentence what it is for";
  const lines = opening
    .split("\n")
    .map((line) => line.replace(/^\s*\*? ?/u, "").trim())
    .filter((line) => line !== "");
  if (lines.length > MAX_LINES) return `opens with ${lines.length} lines, at most ${MAX_LINES}`;
  const sentence = /^.*?[.:!?](?=\s|$)/u.exec(lines.join(" "))?.[0] ?? "";
  const whole = lines.join(" ");
  if (whole.length < MIN_SENTENCE || sentence === "" || !/[.!?]$/u.test(whole)) {
    return `opens with no sentence (at least ${MIN_SENTENCE} characters and a full stop)`;
  }
  return undefined;
}
