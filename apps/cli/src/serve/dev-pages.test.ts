/** The pages of `redrive dev` have real numbers, safe headers and no script. */
import { presets } from "@redrive/core";
import { describe, expect, test } from "vitest";
import { PAGES } from "./dev-pages.ts";

const get = (path: string) => PAGES[path]!();

describe("the dev pages", () => {
  test("list every preset with its waits as JSON", () => {
    const { policies } = JSON.parse(get("/policies.json").body);
    expect(policies.map(({ name }: { name: string }) => name)).toEqual(Object.keys(presets));
    expect(policies[0]).toMatchObject({ name: "default", ceilingsMs: [100, 200, 400, 800] });
  });

  test("show every preset in HTML and load no script", () => {
    const { body, headers } = get("/");
    for (const name of Object.keys(presets)) expect(body).toContain(`>${name}<`);
    expect(body).toContain("100\u00a0ms, 200\u00a0ms, 400\u00a0ms, 800\u00a0ms");
    expect(body).not.toContain("<script");
    expect(body).toContain('href="/docs"');
    expect(headers["content-security-policy"]).toMatch(/^default-src 'none'; style-src 'self'/u);
  });
});
