/** Tests of the docs page: it shows every operation and escapes all text. */
import { expect, it } from "vitest";
import { docsPage } from "./page-routes.ts";

it("escapes everything in the document", () => {
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

it("accepts a document that is not an object", () => {
  expect(docsPage(null)).toContain("<!doctype html>");
});
