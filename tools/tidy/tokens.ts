/**
 * Tokens: splits a file into tokens with line numbers, so that a rule does not mistake a comment or
 * a string for code.
 */
import jsTokens from "js-tokens";

export interface Token {
  readonly type: string;
  readonly value: string;
  readonly line: number;
}

export interface Import {
  readonly specifier: string;
  readonly line: number;
  /** True if the compiler erases it: `import type` and `export type`. */
  readonly isType: boolean;
}

const BLANK = new Set(["WhiteSpace", "LineTerminatorSequence"]);
const COMMENT = new Set(["SingleLineComment", "MultiLineComment", "HashbangComment"]);

/** All tokens except white space, including comments. */
export function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  let line = 1;
  for (const { type, value } of jsTokens(text)) {
    if (!BLANK.has(type)) tokens.push({ type, value, line });
    line += value.split("\n").length - 1;
  }
  return tokens;
}

export function codeTokensOf(text: string): Token[] {
  return tokensOf(text).filter(({ type }) => !COMMENT.has(type));
}

/** Lists the imports of a file: static imports, re-exports, and `import()` of a string literal. */
export function importsOf(text: string): Import[] {
  const tokens = codeTokensOf(text);
  return tokens.flatMap((token, index) => importAt(tokens, index, token));
}

function importAt(tokens: readonly Token[], index: number, token: Token): Import[] {
  if (token.type !== "StringLiteral") return [];
  const before = tokens[index - 1]?.value;
  const isCall = before === "(" && tokens[index - 2]?.value === "import";
  if (before !== "from" && before !== "import" && !isCall) return [];
  const isType = before === "from" && isTypeStatement(tokens, index);
  return [{ specifier: token.value.slice(1, -1), line: token.line, isType }];
}

/** Looks back to the statement's `import` or `export` for the word `type` right after it. */
function isTypeStatement(tokens: readonly Token[], from: number): boolean {
  for (let index = from - 1; index >= 0; index--) {
    const word = tokens[index]?.value;
    if (word !== "import" && word !== "export") continue;
    const next = tokens[index + 1]?.value;
    return next === "type" && tokens[index + 2]?.value !== "from";
  }
  return false;
}
