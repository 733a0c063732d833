/**
 * The packed packages, imported and required in every supported runtime, and type-checked under every
 * module resolution that TypeScript users have.
 */
// needs: packed
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { nodeScript } from "../../tools/setup/command.mjs";
import { bunProgram, denoProgram, nodeProgram } from "../../tools/setup/other-runtime.mjs";
import { entries, folderInProject, node, type Program, run } from "./packed-project.ts";

const importAll = `${entries.map((entry) => `await import("${entry}");`).join("\n")}
console.log("all there");\n`;
const requireAll = `${entries.map((entry) => `require("${entry}");`).join("\n")}
console.log("all there");\n`;

/** A call that fails once, with both module systems of one runtime: it must be one library, not two. */
const useLibrary = `import { createRequire } from "node:module";
import { retry, RedriveError } from "redrive";
let calls = 0;
const result = await retry(() => {
  calls += 1;
  if (calls < 2) throw new Error("busy");
  return "done";
}, { maxAttempts: 2, initialDelayMs: 1 });
const required = createRequire(import.meta.url)("redrive");
console.log(result, calls, required.RedriveError === RedriveError);
`;

/** Some bundlers set the condition `source`. Our sources are not published. */
test.each(["node", "source"])("every entry can be imported under %s", async (condition) => {
  const folder = folderInProject({ "all.mjs": importAll });
  expect(await run(node("--conditions", condition, "all.mjs"), folder)).toBe("all there\n");
});

const nodes: readonly (readonly [string, () => Promise<string>])[] = [
  ["this Node", async () => process.execPath],
  ["Node 22", () => nodeProgram(22)],
  ["Node 24", () => nodeProgram(24)],
];

describe.each(nodes)("%s", (_, program) => {
  test("imports and requires every entry", async () => {
    const folder = folderInProject({ "all.mjs": importAll, "all.cjs": requireAll });
    const path = await program();
    for (const file of ["all.mjs", "all.cjs"]) {
      const args = ["--disable-warning=ExperimentalWarning", file];
      expect(await run({ program: path, args }, folder)).toBe("all there\n");
    }
  });

  test("import and require return the same library", async () => {
    const folder = folderInProject({ "use.mjs": useLibrary });
    expect(await run({ program: await program(), args: ["use.mjs"] }, folder)).toBe(
      "done 2 true\n",
    );
  });
});

const others: readonly (readonly [string, () => Promise<Program>])[] = [
  ["Bun", async () => ({ program: await bunProgram(), args: ["use.mjs"] })],
  ["Deno", async () => ({ program: await denoProgram(), args: ["run", "-A", "use.mjs"] })],
];

test.each(others)("the library retries on %s", async (_, program) => {
  const folder = folderInProject({ "use.mjs": useLibrary });
  expect(await run(await program(), folder)).toBe("done 2 true\n");
});

const names = entries.map((entry, index) => `import * as part${index} from "${entry}";`);
const typed = `${names.join("\n")}
import { schedule } from "@redrive/simulator";
export const all: readonly object[] = [${entries.map((_, index) => `part${index}`).join(", ")}];
export const sumMs: number = schedule({ maxAttempts: 3 }, { seed: 7 }).sumMs;
// @ts-expect-error: it is a number.
export const wrong: string = schedule({ maxAttempts: 3 }).sumMs;
`;

/** The declarations of the library and of core, without `skipLibCheck`. */
const strict = `import { retry, type RetryOptions } from "redrive";
import { resolvePolicy } from "@redrive/core";
export const options: RetryOptions = { maxAttempts: resolvePolicy({}).maxAttempts };
export const result: Promise<number> = retry(() => 1, options);
`;

const resolutions = [
  ["nodenext", "nodenext"],
  ["node16", "node16"],
  ["esnext", "bundler"],
] as const;

describe.each(resolutions)("TypeScript with module %s and moduleResolution %s", (module, kind) => {
  const flags = ["--ignoreConfig", "--noEmit", "--strict", "--target", "es2023"];
  const all = [...flags, "--module", module, "--moduleResolution", kind, "--types", ""];
  const tsc = (...args: readonly string[]) => nodeScript("typescript/bin/tsc", [...all, ...args]);

  test.each(["mts", "cts"])("checks every entry in a .%s file", async (extension) => {
    const folder = folderInProject({ [`use.${extension}`]: typed });
    expect(await run(tsc("--skipLibCheck", `use.${extension}`), folder)).toBe("");
  });

  test.each(["mts", "cts"])(
    "checks the library's declarations in a .%s file",
    async (extension) => {
      const folder = folderInProject({ [`use.${extension}`]: strict });
      const libs = ["--lib", "es2023,dom,dom.iterable,esnext.disposable"];
      expect(await run(tsc(...libs, join(folder, `use.${extension}`)), folder)).toBe("");
    },
  );
});
