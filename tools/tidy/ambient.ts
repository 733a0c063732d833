/**
 * Ambient: product code gets time, timers and random numbers from its caller, never from global
 * objects. Only `core/src/time/system.ts` reads those. A table has the replacement for each name.
 */
import { type Finding, isCode, isForTests, isProduct, type Source } from "./source.ts";
import { codeTokensOf, importsOf, type Token } from "./tokens.ts";

/** Files that may use them, with the reason. */
const EXCEPTIONS: Readonly<Record<string, string>> = {
  "core/src/time/system.ts": "provides the system clock and random numbers",
  "core/src/time/http-date.ts": "parses and formats dates, but reads no clock",
  "faces/service/src/create-redrive.ts": "wires the embedded service, whose ids come from crypto",
};

const CLOCK_NOW = "a Clock's now()";
const MONOTONIC = "a Clock's monotonicMs()";
const ALARM = "a Clock's alarm() or sleep()";
const END_OF_TURN = "a Clock's endOfTurn()";
const RANDOM = "a Random's next()";
const IDS = "an id source passed in by the caller";

/** Banned code, as a sequence of tokens, and what to use instead. */
const BANNED: readonly { readonly words: readonly string[]; readonly instead: string }[] = [
  { words: ["Date"], instead: CLOCK_NOW },
  { words: ["performance"], instead: MONOTONIC },
  { words: ["process", ".", "hrtime"], instead: MONOTONIC },
  { words: ["process", ".", "uptime"], instead: MONOTONIC },
  { words: ["setTimeout"], instead: ALARM },
  { words: ["setInterval"], instead: ALARM },
  { words: ["requestAnimationFrame"], instead: ALARM },
  { words: ["AbortSignal", ".", "timeout"], instead: ALARM },
  { words: ["setImmediate"], instead: END_OF_TURN },
  { words: ["queueMicrotask"], instead: END_OF_TURN },
  { words: ["process", ".", "nextTick"], instead: END_OF_TURN },
  { words: ["Math", ".", "random"], instead: RANDOM },
  { words: ["randomUUID"], instead: IDS },
  { words: ["randomBytes"], instead: IDS },
  { words: ["randomInt"], instead: RANDOM },
  { words: ["getRandomValues"], instead: RANDOM },
];

const BANNED_MODULES: Readonly<Record<string, string>> = {
  "node:timers": ALARM,
  "node:timers/promises": ALARM,
  "node:perf_hooks": MONOTONIC,
};

/** `x.Date` is a field of an object, but on these objects it is the global one. */
const GLOBAL_OBJECTS = new Set(["globalThis", "window", "self", "global", "crypto", "webcrypto"]);

export function ambient(sources: readonly Source[]): Finding[] {
  return sources
    .filter((source) => isCode(source) && isProduct(source.path) && !isForTests(source.path))
    .filter(({ path }) => !Object.hasOwn(EXCEPTIONS, path))
    .flatMap((source) => [...bannedWords(source), ...bannedModules(source)]);
}

function bannedWords({ path, text }: Source): Finding[] {
  const tokens = codeTokensOf(text);
  return tokens.flatMap((token, index) => {
    const ban = BANNED.find(({ words }) => startsAt(tokens, index, words));
    if (ban === undefined) return [];
    return [{ path, line: token.line, message: `${ban.words.join("")}: use ${ban.instead}` }];
  });
}

function bannedModules({ path, text }: Source): Finding[] {
  return importsOf(text).flatMap(({ specifier, line }) => {
    const instead = BANNED_MODULES[specifier];
    return instead === undefined ? [] : [{ path, line, message: `${specifier}: use ${instead}` }];
  });
}

function startsAt(tokens: readonly Token[], index: number, words: readonly string[]): boolean {
  const isMatch = words.every((word, offset) => tokens[index + offset]?.value === word);
  return isMatch && !isMember(tokens, index) && !isKey(tokens, index + words.length - 1);
}

/** True for `clock.setTimeout`, false for `globalThis.setTimeout`. */
function isMember(tokens: readonly Token[], index: number): boolean {
  const before = tokens[index - 1]?.value;
  if (before !== "." && before !== "?.") return false;
  return !GLOBAL_OBJECTS.has(tokens[index - 2]?.value ?? "");
}

/** True for the key in `{ performance: 1 }`, which is a field. */
function isKey(tokens: readonly Token[], index: number): boolean {
  const before = tokens[index - 1]?.value;
  return tokens[index + 1]?.value === ":" && (before === "{" || before === "," || before === ";");
}
