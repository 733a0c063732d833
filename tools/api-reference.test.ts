/** docs/library/api.md matches the types. Run `node tools/api-reference.mjs` to update it. */
// needs: build
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { API_PAGE, apiReference, statementsOf } from "./api-reference.mjs";

test("the page is up to date", () => {
  expect(readFileSync(API_PAGE, "utf8")).toBe(apiReference());
});

test("every name of every entry point is on the page, once", () => {
  const names: string[] = [...apiReference().matchAll(/^#{2,3} .*$/gmu)].map(([line]) => line);
  expect(names).toContain("### retry");
  expect(names).toContain("## `redrive/testing`");
  const main = names.slice(0, names.indexOf("## `redrive/testing`"));
  expect(new Set(main).size).toBe(main.length);
});

describe("statements of a declaration file", () => {
  test("are split correctly, each with its comment", () => {
    const source = [
      "/** File. */",
      'import type { A } from "a";',
      "/** What it is. */",
      "export type Ending<T> = {",
      "    readonly value: T;",
      "} | {",
      "    readonly error: unknown;",
      "};",
      "export interface Box {",
      "    /** A brace } in a comment. */",
      "    open(at: { x: number; }): void;",
      "}",
      "export declare function make(name: string): Box;",
    ].join("\n");
    expect(statementsOf(source).map(({ doc, text }) => [doc, text.split("\n")[0]])).toEqual([
      ["File.", 'import type { A } from "a"'],
      ["What it is.", "export type Ending<T> = {"],
      ["", "export interface Box {"],
      ["", "export declare function make(name: string): Box"],
    ]);
  });
});
