/** Tests that docs/modules.md lists every module with its purpose. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { modulesPage, purposeOf } from "./modules.mjs";
import { inRoot } from "./setup/root.mjs";

test("the list of modules is up to date (run `npm run modules` if not)", () => {
  expect(readFileSync(inRoot("docs/modules.md"), "utf8")).toBe(modulesPage());
});

test("a file's purpose is the first sentence of its opening comment, on one line", () => {
  expect(purposeOf("/**\n * Heap: holds\n * ids. And more.\n */\nimport x;")).toBe(
    "Heap: holds ids.",
  );
  expect(purposeOf("/** One line. */")).toBe("One line.");
  expect(purposeOf("/** Reads e.g. `a.b` and 1.5 ms. `Then` more. */")).toBe(
    "Reads e.g. `a.b` and 1.5 ms.",
  );
  expect(purposeOf("import x;")).toBe("");
});
