/** Tests that every name of a file leads to the same path. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { realFile } from "./file-name.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "redrive-name-")));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
mkdirSync(join(folder, "data"));
writeFileSync(join(folder, "data", "here.db"), "");
symlinkSync("data", join(folder, "linked"));
symlinkSync(join("linked", "here.db"), join(folder, "here"));
symlinkSync(join("linked", "later.db"), join(folder, "later"));
symlinkSync("loop", join(folder, "loop"));

describe("the real path of a file", () => {
  it.each([
    ["data/here.db", "data/here.db"],
    ["data/../data/./here.db", "data/here.db"],
    ["linked/here.db", "data/here.db"],
    ["here", "data/here.db"],
    ["later", "data/later.db"],
    ["linked/new/folder/file.db", "data/new/folder/file.db"],
  ])("of %s is %s", (name, path) => {
    expect(realFile(join(folder, name))).toBe(join(folder, path));
    expect(realFile(relative(process.cwd(), join(folder, name)))).toBe(join(folder, path));
  });

  it("of a link to itself is an error, and :memory: is not a file", () => {
    expect(() => realFile(join(folder, "loop"))).toThrow(/ELOOP/u);
    expect(() => realFile(":memory:")).toThrow(/use memory: for a store in memory/u);
  });
});
