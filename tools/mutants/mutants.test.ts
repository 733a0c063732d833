/** Tests of the mutants themselves: each still fits the code, and changes it to code that still parses. */
import { relative, sep } from "node:path";
import { parseSync } from "vite";
import { describe, expect, it } from "vitest";
import { filesBelow } from "../setup/fingerprint.mjs";
import { inRoot } from "../setup/root.mjs";
import { AREAS } from "./areas.mjs";
import { patternOf, textOf } from "./locate.mjs";
import { mutate, SERVICE } from "./mutant.mjs";
import { mutants } from "./table.mjs";

describe("the mutants", () => {
  it("are at least a hundred, and each has its own name", () => {
    expect(mutants.length).toBeGreaterThan(100);
    const names = mutants.map((mutant) => `${mutant.in}: ${mutant.name}`);
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });

  it("fit the code", () => {
    const problems = mutants.flatMap((mutant) => {
      try {
        const { file, text } = mutate(mutant);
        return text === textOf(file) ? [mutant.name] : [];
      } catch (error) {
        return [String(error)];
      }
    });
    expect(problems).toEqual([]);
  });

  it.each(mutants)("are valid source text: $name in $in", (mutant) => {
    const { file, text } = mutate(mutant);
    expect(parseSync(file, text).errors).toEqual([]);
  });

  it("that no longer fit are refused", () => {
    const mutant = { name: "n", in: "laneOf", search: "return", replace: "" };
    expect(() => mutate(mutant)).toThrow(
      /must occur once in laneOf, but occurs [2-9] times: "return"/,
    );
    expect(() => mutate({ ...mutant, search: "gone" })).toThrow(/occurs 0 times/);
    expect(() => mutate({ ...mutant, in: "Gone.gone" })).toThrow(/occurs 0 times/);
  });

  it("are found whatever the white space", () => {
    expect("if (a)\n    b();".match(patternOf("if (a) b();"))).toHaveLength(1);
    expect("x.y".match(patternOf("xzy"))).toBeNull();
  });

  it("have areas whose tests exist", () => {
    const files = filesBelow(inRoot(SERVICE)).map((path) =>
      relative(inRoot(SERVICE), path).split(sep).join("/"),
    );

    const tests = AREAS.flatMap((area) => area.tests);
    const isTest = (file: string) => file.endsWith(".test.ts");
    const gone = tests.filter(
      (path) => !files.some((file) => isTest(file) && file.startsWith(path)),
    );
    expect(gone).toEqual([]);
  });
});
