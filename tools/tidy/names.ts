/**
 * Names: files are in kebab-case and named after the noun they export, never after a drawer. A
 * public `index.ts` lists what it exports, and exports have names.
 */
import { posix } from "node:path";
import { type Finding, isCode, type Source } from "./source.ts";
import { codeTokensOf } from "./tokens.ts";

const KEBAB = /^[a-z0-9]+(?:-[a-z0-9]+)*(?:\.[a-z0-9]+)*$/u;
const DRAWERS = /^(?:utils?|helpers?|common|types?|misc|shared|lib)$/u;

/** Files that a tool finds by their default export. */
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
  const drawer = [...parts, stem].find((part) => DRAWERS.test(part));
  if (drawer !== undefined) {
    return [{ path, line: 1, message: `"${drawer}" is a drawer: name it after what it holds` }];
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
