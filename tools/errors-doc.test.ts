/** docs/errors.md and the types say the same, both ways: every code and reason, and no other. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { inRoot } from "./setup/root.mjs";

const page = readFileSync(inRoot("docs", "errors.md"), "utf8");

/** The headings below one chapter of the page. */
function headingsOf(chapter: string): string[] {
  const part = page.split(/^## /mu).find((text) => text.startsWith(`${chapter}\n`)) ?? "";
  return [...part.matchAll(/^### (?<name>\S+)$/gmu)].map((match) => match.groups?.["name"] ?? "");
}

/** The members of a union of texts, as its source lists them, those of unions it names included. */
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
  ["Codes", "errors/errors.ts", "ErrorCode"],
  ["Reasons", "errors/stop-reason.ts", "StopReason"],
])("%s", (chapter, file, union) => {
  test("each is told", () => {
    const members = membersOf(file, union);
    expect(members.length).toBeGreaterThan(5);
    expect(headingsOf(chapter).toSorted()).toEqual(members.toSorted());
  });

  test("each with what it means", () => {
    const empty = page.match(/^### \S+\n\n(?=#)/gmu) ?? [];
    expect(empty).toEqual([]);
  });
});
