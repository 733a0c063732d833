/**
 * Compile: all TypeScript and JavaScript blocks at once, as files in one folder inside the clone, so
 * that packages resolve as they would for a reader, and to sources, so that no build is needed.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { nodeScript, spawnAndCollect } from "../setup/command.mjs";
import { inRoot } from "../setup/root.mjs";
import { withClaims } from "./claims.ts";
import { placeOf, type Snippet } from "./markdown.ts";

export interface Compiled {
  /** The file of each block that is code, in the order of the blocks. */
  readonly files: ReadonlyMap<Snippet, string>;
  /** What the compiler says, at the lines of the documents. */
  readonly problems: readonly string[];
  /** Removes the folder. */
  readonly remove: () => void;
}

const EXTENSIONS: Readonly<Record<string, string>> = { ts: "ts", js: "mjs" };

const SETTINGS = {
  noEmit: true,
  composite: false,
  incremental: false,
  declaration: false,
  declarationMap: false,
  allowImportingTsExtensions: true,
  rewriteRelativeImportExtensions: false,
  allowJs: true,
  // A document shows how a thing is made; what becomes of it is the reader's.
  noUnusedLocals: false,
  noUnusedParameters: false,
  lib: ["ES2023", "DOM"],
  types: ["node"],
};

export async function compileSnippets(snippets: readonly Snippet[]): Promise<Compiled> {
  mkdirSync(inRoot(".redrive"), { recursive: true });
  const folder = mkdtempSync(inRoot(".redrive", "snippets-"));
  const claims = inRoot("tools", "snippets", "claims.ts");
  const files = new Map<Snippet, string>();
  for (const snippet of snippets) {
    const extension = EXTENSIONS[snippet.language];
    if (extension === undefined) continue;
    const file = join(folder, `snippet-${files.size + 1}.${extension}`);
    writeFileSync(file, withClaims(snippet.code, claims));
    files.set(snippet, file);
  }
  return {
    files,
    problems: files.size === 0 ? [] : await problemsOf(folder, files),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

async function problemsOf(folder: string, files: ReadonlyMap<Snippet, string>): Promise<string[]> {
  const config = {
    extends: inRoot("tsconfig.base.json"),
    compilerOptions: SETTINGS,
    files: [...files.values()],
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
  let output = "";
  const command = { label: "snippets", ...nodeScript("typescript/bin/tsc", ["-p", folder]) };
  const { code } = await spawnAndCollect(command, (text) => {
    output += text;
  });
  if (code === 0) return [];
  const places = new Map([...files].map(([snippet, file]) => [basename(file), snippet]));
  return output
    .trim()
    .split("\n")
    .map((line) => relocate(line, places));
}

/** `.../snippet-3.ts(2,5): error ...` becomes `README.md:41: error ...`. */
function relocate(line: string, places: ReadonlyMap<string, Snippet>): string {
  const match = /(?<file>snippet-\d+\.\w+)\((?<row>\d+),\d+\): (?<message>.*)$/u.exec(line);
  const { file = "", row = "1", message = line } = match?.groups ?? {};
  const snippet = places.get(file);
  if (snippet === undefined) return line;
  return `${placeOf({ ...snippet, line: snippet.line + Number(row) - 1 })}: ${message}`;
}
