/** docs/errors.md lists exactly the codes and reasons of the types. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { inRoot } from "./setup/root.mjs";

const page = readFileSync(inRoot("docs", "errors.md"), "utf8");

/** The headings of one chapter. */
function headingsOf(chapter: string): string[] {
  const part = page.split(/^## /mu).find((text) => text.startsWith(`${chapter}\n`)) ?? "";
  return [...part.matchAll(/^### (?<name>\S+)$/gmu)].map((match) => match.groups?.["name"] ?? "");
}

/** The members of a union of strings in the source, including those of nested unions. */
function membersOf(file: string, union: string): string[] {
  const source = readFileSync(inRoot("core", "src", file), "utf8");
  const body = new RegExp(`export type ${union} =(?<body>[^;]*);`, "u").exec(source)?.groups?.[
    "body"
  ];
  const code = (body ?? "").replaceAll(/\/\*[\s\S]*?\*\//gu, "");
  return [...code.matchAll(/\| (?:"(?<text>[^"]+)"|(?<name>\w+))/gu)].flatMap(({ groups }) =>
    groups?.["text"] === undefined ? membersOf(file, groups?.["name"] ?? "") : [groups["text"]],
  );
}

describe.each([
  ["Codes", "documents/errors.ts", "ErrorCode"],
  ["Reasons", "documents/errors.ts", "StopReason"],
])("%s", (chapter, file, union) => {
  test("each has a heading", () => {
    const members = membersOf(file, union);
    expect(members.length).toBeGreaterThan(5);
    expect(headingsOf(chapter).toSorted()).toEqual(members.toSorted());
  });

  test("each has a description", () => {
    const empty = page.match(/^### \S+\n\n(?=#)/gmu) ?? [];
    expect(empty).toEqual([]);
  });
});
