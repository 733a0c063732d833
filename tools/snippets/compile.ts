/**
 * Compile: compiles all TypeScript and JavaScript blocks at once, as files in one folder of the
 * checkout. Packages resolve as for a reader, but to the sources, so no build is needed.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { nodeScript, spawnAndCollect } from "../setup/command.mjs";
import { inRoot } from "../setup/root.mjs";
import { withClaims } from "./claims.ts";
import { locationOf, type Snippet } from "./markdown.ts";

export interface Compiled {
  /** The file of each code block, in the order of the blocks. */
  readonly files: ReadonlyMap<Snippet, string>;
  /** The compiler errors, with the lines of the documents. */
  readonly problems: readonly string[];
  /** The folder of the files. */
  readonly folder: string;
  /** Removes the folder. */
  readonly remove: () => void;
}

const EXTENSIONS: Readonly<Record<string, string>> = { ts: "ts", js: "mjs" };

const COMPILER_OPTIONS = {
  noEmit: true,
  composite: false,
  incremental: false,
  declaration: false,
  declarationMap: false,
  allowImportingTsExtensions: true,
  rewriteRelativeImportExtensions: false,
  allowJs: true,
  // A document may show how to create a value without using it.
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
    folder,
    problems: files.size === 0 ? [] : await problemsOf(folder, files),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

async function problemsOf(folder: string, files: ReadonlyMap<Snippet, string>): Promise<string[]> {
  const config = {
    extends: inRoot("tsconfig.base.json"),
    compilerOptions: COMPILER_OPTIONS,
    files: [...files.values()],
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
  let output = "";
  const command = { label: "snippets", ...nodeScript("typescript/bin/tsc", ["-p", folder]) };
  const { code } = await spawnAndCollect(command, (text) => {
    output += text;
  });
  if (code === 0) return [];
  const snippetsByFile = new Map([...files].map(([snippet, file]) => [basename(file), snippet]));
  return output
    .trim()
    .split("\n")
    .map((line) => relocate(line, snippetsByFile));
}

/** `.../snippet-3.ts(2,5): error ...` becomes `README.md:41: error ...`. */
function relocate(line: string, snippetsByFile: ReadonlyMap<string, Snippet>): string {
  const match = /(?<file>snippet-\d+\.\w+)\((?<row>\d+),\d+\): (?<message>.*)$/u.exec(line);
  const { file = "", row = "1", message = line } = match?.groups ?? {};
  const snippet = snippetsByFile.get(file);
  if (snippet === undefined) return line;
  return `${locationOf({ ...snippet, line: snippet.line + Number(row) - 1 })}: ${message}`;
}
