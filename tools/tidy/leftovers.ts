/**
 * Leftovers: finds traces of one machine (package registries, paths of a home folder) in committed
 * files, `.only` in tests, and skipped tests without a reason.
 */
import { type Finding, isTest, lineAt, type Source } from "./source.ts";
import { type Token, tokensOf } from "./tokens.ts";

/** Text that is valid only on one machine. */
const TRACES: readonly { readonly pattern: RegExp; readonly message: string }[] = [
  {
    pattern:
      /\b(?:registry|npm|mirror|proxy)\.[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:org|com|net|dev|io)\b/giu,
    message: "names a package registry",
  },
  {
    pattern: /(?<![\w.~$*}/-])\/(?:root|work|home|Users|mnt)\/[\w.-]+/gu,
    message: "names a path of one machine",
  },
];

export function traces(sources: readonly Source[]): Finding[] {
  return sources.flatMap(({ path, text }) =>
    TRACES.flatMap(({ pattern, message }) =>
      [...text.matchAll(pattern)].map((match) => ({
        path,
        line: lineAt(text, match.index),
        message: `${message}: ${match[0]}`,
      })),
    ),
  );
}

const SKIPS = new Set(["skip", "skipIf", "runIf", "todo"]);
const REASON = /^\/\/ skipped: .{10,}$/u;

/** `.only` is never allowed. A skip needs a comment `// skipped: why` on its line or the line before. */
export function silencedTests(sources: readonly Source[]): Finding[] {
  return sources
    .filter(({ path }) => isTest(path))
    .flatMap(({ path, text }) => {
      const tokens = tokensOf(text);
      return tokens.flatMap((token, index) => {
        const message = refuse(tokens, index, token);
        return message === undefined ? [] : [{ path, line: token.line, message }];
      });
    });
}

function refuse(tokens: readonly Token[], index: number, token: Token): string | undefined {
  if (tokens[index - 1]?.value !== ".") return undefined;
  if (token.value === "only") return ".only silences every other test";
  if (!SKIPS.has(token.value) || hasReason(tokens, index, token)) return undefined;
  return `.${token.value} needs its reason: a comment "// skipped: why" on the line before`;
}

/** The reason is a comment on the line before, or the argument of `context.skip("...")`. */
function hasReason(tokens: readonly Token[], index: number, token: Token): boolean {
  const argument = tokens[index + 2];
  const isOnContext = tokens[index - 2]?.value === "context";
  if (isOnContext && argument?.type === "StringLiteral" && argument.value.length > 12) return true;
  return tokens.some(
    (other) =>
      REASON.test(other.value) && (other.line === token.line - 1 || other.line === token.line),
  );
}
