/** Tests of the mutants themselves: each still fits its file, and changes code that still parses. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
// biome-ignore lint/suspicious/noDeprecatedImports: its successor is not exported to us
import { parseAst } from "vitest/node";
import { inRoot } from "../setup/root.mjs";
import { mutate } from "./mutant.mjs";
import { mutants } from "./table.mjs";

const textOf = (file: string) => readFileSync(inRoot(file), "utf8");

describe("the mutants", () => {
  it("are at least a hundred, and each has its own name in its file", () => {
    expect(mutants.length).toBeGreaterThan(100);
    const names = mutants.map(({ file, name }) => `${file}: ${name}`);
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });

  it("fit their files", () => {
    const problems = mutants.flatMap((mutant) => {
      try {
        return mutate(textOf(mutant.file), mutant) === textOf(mutant.file) ? [mutant.name] : [];
      } catch (error) {
        return [String(error)];
      }
    });
    expect(problems).toEqual([]);
  });

  it.each(mutants)("are valid source text: $name in $file", (mutant) => {
    const text = mutate(textOf(mutant.file), mutant);
    expect(parseAst(text, { lang: "ts" }).body.length).toBeGreaterThan(0);
  });

  it("that no longer fit are refused", () => {
    const mutant = { name: "n", file: "f.ts", search: "a", replace: "b" };
    expect(mutate("xay", mutant)).toBe("xby");
    expect(() => mutate("a a", mutant)).toThrow(
      /must occur once in f\.ts, but occurs 2 times: "a"/,
    );
    expect(() => mutate("", mutant)).toThrow(/occurs 0 times/);
  });
});
