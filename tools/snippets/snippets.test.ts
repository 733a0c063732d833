/** Every error in a code block is found and reported with its line. */
import { expect, onTestFinished, test } from "vitest";
import { claimed, withClaims } from "./claims.ts";
import { compileSnippets } from "./compile.ts";
import { snippetsOf } from "./markdown.ts";
import { shellProblems } from "./shell.ts";

const FENCE = "```";
const block = (info: string, ...lines: string[]) => [`${FENCE}${info}`, ...lines, FENCE].join("\n");

test("blocks are found with their language, line and reason for not running", () => {
  const text = `# Title\n\n${block("ts", "a;")}\n\n${block("ts no-run listens for ever", "b;")}\n`;
  expect(snippetsOf("README.md", text)).toEqual([
    { path: "README.md", line: 4, language: "ts", code: "a;\n", noRun: undefined },
    { path: "README.md", line: 8, language: "ts", code: "b;\n", noRun: "listens for ever" },
  ]);
  expect(snippetsOf("a.md", block("ts no-run", "a;"))[0]?.noRun).toBe("");
});

test("a compiler error is reported with its line in the document", async () => {
  const text = `Intro.\n\n${block("ts", "const a = 1;", 'const b: number = "x";')}\n${block(
    "ts",
    'import { nothing } from "@redrive/core";',
  )}`;
  const { problems, remove } = await compileSnippets(snippetsOf("docs/a.md", text));
  onTestFinished(remove);
  expect(problems).toEqual([
    expect.stringContaining("docs/a.md:5: error TS2322"),
    expect.stringMatching(/^docs\/a\.md:8: error TS2/u),
  ]);
});

test("a false claim fails the run, a true one does not", async () => {
  const run = async (...lines: string[]) => {
    const compiled = await compileSnippets(snippetsOf("a.md", block("ts", ...lines)));
    onTestFinished(compiled.remove);
    expect(compiled.problems).toEqual([]);
    for (const file of compiled.files.values()) await import(/* @vite-ignore */ file);
  };
  await run(
    "const sum = 1 + 1; // => 2",
    "sum * 2; // => 4",
    "console.log({ sum }); // => { sum: 2 }",
  );
  await expect(run("1 + 1; // => 3")).rejects.toThrow("claims 3, but it is 2");
  await expect(run('throw new Error("snippet broke");')).rejects.toThrow("snippet broke");
});

test("claims do not move lines", () => {
  const code = "const a = [1];\nconst b = a.map(String); // => ['1']\nb.length // => 1\n";
  expect(withClaims(code, "x").split("\n").slice(0, 3)).toEqual([
    "const a = [1];",
    "const b = a.map(String); claimed(b, (['1']));",
    "claimed(b.length, (1));",
  ]);
  expect(() => claimed({ a: 1 }, { a: 1 })).not.toThrow();
  expect(() => withClaims("a();\n// => 1", "x")).toThrow("after its statement");
});

test("unknown npm scripts are reported", () => {
  expect(shellProblems("npm start\nnpm run check\n$ npm test -- core\nls")).toEqual([]);
  expect(shellProblems("npm run chekc")).toEqual(['there is no npm script "chekc"']);
});
