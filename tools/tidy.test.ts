/**
 * Tidy: the house rules hold for the tree as it is. That each rule catches a violation is shown
 * beside it, in `tools/tidy/*.test.ts`.
 */
import { describe, expect, test } from "vitest";
import { RULES } from "./tidy/rules.ts";
import { readTree, spellFinding } from "./tidy/source.ts";

const tree = readTree();

test("the tree is read", () => {
  const paths = tree.map(({ path }) => path);
  expect(paths).toContain("core/src/time/system.ts");
  expect(paths.filter((path) => path.includes("node_modules"))).toEqual([]);
});

describe("the tree", () => {
  test.each(Object.entries(RULES))("%s", (_, rule) => {
    expect(rule(tree).map(spellFinding)).toEqual([]);
  });
});
