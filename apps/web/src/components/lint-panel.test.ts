/** Tests that a rule finds its section. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { sectionOf } from "./lint-panel.tsx";

const PAGE =
  "# Lint\n\n## Waits\n\n### no-wait\nError. All at `once`.\nNothing.\n\n### no-jitter\nWarning.\n";

test("has the text of the rule alone, as plain text", () => {
  expect(sectionOf(PAGE, "no-wait")).toBe("Error. All at once. Nothing.");
  expect(sectionOf(PAGE, "no-jitter")).toBe("Warning.");
  expect(sectionOf(PAGE, "no")).toBe("This rule has no documentation.");
});

test("reads the documentation of the repository", () => {
  const page = readFileSync(new URL("../../../../docs/lint.md", import.meta.url), "utf8");
  expect(sectionOf(page, "no-jitter")).toContain("Clients that fail together retry together.");
});
