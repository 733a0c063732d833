/**
 * Tidy: the tree follows the tidy rules. `tools/tidy/*.test.ts` shows that each rule finds a
 * violation.
 */
import { describe, expect, test } from "vitest";
import { RULES } from "./tidy/rules.ts";
import { formatFinding, readTree } from "./tidy/source.ts";

const tree = readTree();

test("the tree is read", () => {
  const paths = tree.map(({ path }) => path);
  expect(paths).toContain("core/src/time/system.ts");
  expect(paths.filter((path) => path.includes("node_modules"))).toEqual([]);
});

describe("the tree", () => {
  test.each(Object.entries(RULES))("%s", (_, rule) => {
    expect(rule(tree).map(formatFinding)).toEqual([]);
  });
});
