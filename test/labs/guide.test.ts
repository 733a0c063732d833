/** Each lab, scenario and file that docs/guide.md and docs/claims.md name as evidence exists. */
import { existsSync, readFileSync } from "node:fs";
import { labs, scenarios } from "@redrive/simulator";
import { describe, expect, test } from "vitest";
import { inRoot } from "../../tools/setup/root.mjs";

const LABS = labs.map(({ id }) => id);
const SCENARIOS = Object.keys(scenarios);

/** The names in backquotes after a word such as "lab", "labs" or "lab and scenario". */
function namesAfter(text: string, word: string): string[] {
  const list = new RegExp(`\\b${word}s?((?: and scenario)? \`[a-z0-9-]+\`(?:,| and| to)?)+`, "gu");
  return [...text.matchAll(list)].flatMap(([found]) =>
    [...found.matchAll(/`([a-z0-9-]+)`/gu)].map(([, name = ""]) => name),
  );
}

describe.each(["guide.md", "claims.md"])("docs/%s", (page) => {
  const text = readFileSync(inRoot("docs", page), "utf8").replaceAll(/\s+/gu, " ");

  test("names labs that exist", () => {
    const names = namesAfter(text, "lab");
    expect(names.length).toBeGreaterThan(5);
    expect(names.filter((name) => !LABS.includes(name))).toEqual([]);
  });

  test("names scenarios that exist", () => {
    expect(namesAfter(text, "scenario").filter((name) => !SCENARIOS.includes(name))).toEqual([]);
  });

  test("names files that exist", () => {
    const files = [...text.matchAll(/`((?:test|core|faces)\/[\w./-]+)`/gu)].map(([, f = ""]) => f);
    expect(files.length).toBeGreaterThan(1);
    expect(files.filter((file) => !existsSync(inRoot(file)))).toEqual([]);
  });
});
