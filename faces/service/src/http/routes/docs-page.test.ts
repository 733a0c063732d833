/** Docs page: everything that is described is told, and nothing is taken for markup. */
import { expect, it } from "vitest";
import { docsPage } from "./docs-page.ts";

it("escapes whatever the description holds", () => {
  const text = '<script>"x"</script>';
  const operation = {
    tags: [text],
    summary: text,
    description: text,
    parameters: [{ name: text, schema: { type: text } }],
  };
  const page = docsPage({
    info: { title: text, description: text },
    paths: { [text]: { get: operation } },
  });
  expect(page).not.toContain("<script");
  expect(page.split("&lt;script&gt;").length).toBeGreaterThan(6);
});

it("survives a description that is none", () => {
  expect(docsPage(null)).toContain("<!doctype html>");
});
