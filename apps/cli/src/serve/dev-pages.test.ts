/** What the pages of `redrive dev` hold: real numbers, safe headers, no script. */
import { presets } from "@redrive/core";
import { describe, expect, test } from "vitest";
import { PAGES } from "./dev-pages.ts";

const ask = (path: string) => PAGES[path]!();

describe("answer", () => {
  test("lists every preset with its waits, as JSON", () => {
    const { policies } = JSON.parse(ask("/policies.json").body);
    expect(policies.map(({ name }: { name: string }) => name)).toEqual(Object.keys(presets));
    expect(policies[0]).toMatchObject({ name: "default", ceilingsMs: [100, 200, 400, 800] });
  });

  test("shows every preset on the page, which loads no script", () => {
    const { body, headers } = ask("/");
    for (const name of Object.keys(presets)) expect(body).toContain(`>${name}<`);
    expect(body).toContain("100\u00a0ms, 200\u00a0ms, 400\u00a0ms, 800\u00a0ms");
    expect(body).not.toContain("<script");
    expect(body).toContain('href="/docs"');
    expect(headers["content-security-policy"]).toMatch(/^default-src 'none'; style-src 'self'/u);
  });
});
