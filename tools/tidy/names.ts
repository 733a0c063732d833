/**
 * Names: checks that file names are kebab-case and not vague, that a public `index.ts` lists its
 * exports, and that there are no default exports.
 */
import { posix } from "node:path";
import { type Finding, isCode, type Source } from "./source.ts";
import { codeTokensOf } from "./tokens.ts";

const KEBAB = /^[a-z0-9]+(?:-[a-z0-9]+)*(?:\.[a-z0-9]+)*$/u;
const VAGUE_NAMES = /^(?:utils?|helpers?|common|types?|misc|shared|lib)$/u;

/** Files whose default export a tool loads. */
const DEFAULT_EXPORTERS = /(?:\.config\.ts|^tools\/tally-reporter\.mjs)$/u;

export function names(sources: readonly Source[]): Finding[] {
  return sources
    .filter(isCode)
    .flatMap((source) => [...refuseName(source), ...refuseExports(source)]);
}

function refuseName({ path }: Source): Finding[] {
  const name = posix.basename(path);
  const parts = path.split("/").slice(0, -1);
  const stem = name.split(".")[0] ?? "";
  const vague = [...parts, stem].find((part) => VAGUE_NAMES.test(part));
  if (vague !== undefined) {
    return [{ path, line: 1, message: `"${vague}" is vague: name it after its contents` }];
  }
  return KEBAB.test(name) ? [] : [{ path, line: 1, message: "file names are in kebab-case" }];
}

function refuseExports({ path, text }: Source): Finding[] {
  const tokens = codeTokensOf(text);
  return tokens.flatMap((token, index) => {
    if (token.value !== "export" || tokens[index - 1]?.value === ".") return [];
    const next = tokens[index + 1]?.value;
    const { line } = token;
    if (next === "*" && posix.basename(path) === "index.ts") {
      return [{ path, line, message: "an index lists names: no export *" }];
    }
    if (next === "default" && !DEFAULT_EXPORTERS.test(path)) {
      return [{ path, line, message: "exports have names: no default export" }];
    }
    return [];
  });
}
