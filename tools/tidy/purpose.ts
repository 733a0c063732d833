/**
 * Purpose: every source file opens with what it is for, in a comment of one to eight lines whose
 * first sentence is a real one. That sentence is the file's line in ARCHITECTURE.md.
 */
import { type Finding, isCode, isProduct, isTest, type Source } from "./source.ts";

const SHORTEST_SENTENCE = 20;
const MOST_LINES = 8;

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
  if (lines.length > MOST_LINES) return `opens with ${lines.length} lines, at most ${MOST_LINES}`;
  const sentence = /^.*?[.:!?](?=\s|$)/u.exec(lines.join(" "))?.[0] ?? "";
  const whole = lines.join(" ");
  if (whole.length < SHORTEST_SENTENCE || sentence === "" || !/[.!?]$/u.test(whole)) {
    return `opens with no sentence (at least ${SHORTEST_SENTENCE} characters and a full stop)`;
  }
  return undefined;
}

/** Every module of core and the faces has its place in ARCHITECTURE.md, once that is written. */
export function architecture(sources: readonly Source[]): Finding[] {
  const map = sources.find(({ path }) => path === "ARCHITECTURE.md");
  if (map === undefined) return [];
  return sources
    .filter((source) => isCode(source) && isProduct(source.path))
    .filter(({ path }) => !path.startsWith("apps/") && !isTest(path) && !isTestingOnly(path))
    .filter(({ path }) => !isNamed(map.text, path))
    .map(({ path }) => ({ path, line: 1, message: "is not named in ARCHITECTURE.md" }));
}

function isTestingOnly(path: string): boolean {
  return path.endsWith(".testing.ts") || path.endsWith("/src/index.ts");
}

/** By its path below `src`, in backquotes or as a word of its own. */
function isNamed(map: string, path: string): boolean {
  const name = path.replace(/^.*?\/src\//u, "").replace(/[.]/gu, "\\.");
  return new RegExp(`(?<![\\w./-])${name}(?![\\w-])`, "u").test(map);
}
