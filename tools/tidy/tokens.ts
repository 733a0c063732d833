/**
 * Tokens: the code of a file without its comments and white space, each token with its line, so
 * that a rule never mistakes a word in a comment or a text for code.
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
}

const BLANK = new Set(["WhiteSpace", "LineTerminatorSequence"]);
const COMMENT = new Set(["SingleLineComment", "MultiLineComment", "HashbangComment"]);

/** Everything but white space, comments included. */
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

/** What a file imports, re-exports or loads: statically, or by `import()` of a plain text. */
export function importsOf(text: string): Import[] {
  const tokens = codeTokensOf(text);
  return tokens.flatMap((token, index) => importAt(tokens, index, token));
}

function importAt(tokens: readonly Token[], index: number, token: Token): Import[] {
  if (token.type !== "StringLiteral") return [];
  const before = tokens[index - 1]?.value;
  const isCall = before === "(" && tokens[index - 2]?.value === "import";
  if (before !== "from" && before !== "import" && !isCall) return [];
  return [{ specifier: token.value.slice(1, -1), line: token.line }];
}
