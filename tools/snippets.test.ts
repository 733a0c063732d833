/**
 * Snippets: every code block of README.md, of the packages' READMEs and of docs/ is correct.
 * TypeScript compiles with our flags and runs, unless its fence has a reason not to; its
 * `// => value` claims are true; JSON parses; npm scripts exist.
 */
import { readFileSync } from "node:fs";
import { relative, sep } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { filesBelow } from "./setup/fingerprint.mjs";
import { builtWorkspaces, inRoot, root } from "./setup/root.mjs";
import { compileSnippets } from "./snippets/compile.ts";
import { locationOf, type Snippet, snippetsOf } from "./snippets/markdown.ts";
import { shellProblems } from "./snippets/shell.ts";

const packageReadmes = builtWorkspaces.map((workspace) => inRoot(workspace, "README.md"));
const documents = [inRoot("README.md"), ...packageReadmes, ...filesBelow(inRoot("docs"))];
const snippets = documents
  .filter((path) => path.endsWith(".md"))
  .flatMap((path) => {
    const name = relative(root, path).split(sep).join("/");
    return snippetsOf(name, readFileSync(path, "utf8"));
  });
const compiled = await compileSnippets(snippets);
// A block may write files, and other tests use the same process.
beforeAll(() => process.chdir(compiled.folder));
afterAll(() => {
  process.chdir(root);
  compiled.remove();
});

const located = (list: readonly Snippet[]) =>
  list.map((snippet) => [locationOf(snippet), snippet] as const);
const inLanguage = (...languages: string[]) =>
  located(snippets.filter(({ language }) => languages.includes(language)));

test("every block of code compiles", () => {
  expect(compiled.problems).toEqual([]);
});

test("a block that is not run says why", () => {
  const silent = snippets.filter(({ noRun }) => noRun === "").map(locationOf);
  expect(silent).toEqual([]);
});

const runnable = [...compiled.files.keys()].filter(({ noRun }) => noRun === undefined);
test.for(located(runnable))("runs: %s", async ([, snippet]) => {
  await import(/* @vite-ignore */ compiled.files.get(snippet) ?? "");
});

test.for(inLanguage("json"))("is JSON: %s", ([, { code }]) => {
  JSON.parse(code);
});

test.for(inLanguage("sh", "bash", "console"))(
  "names npm scripts that exist: %s",
  ([, { code }]) => {
    expect(shellProblems(code)).toEqual([]);
  },
);
