/** The pages of `redrive dev` have real numbers and safe headers. */
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

  test("allow no script, style or frame", () => {
    expect(get("/policies.json").headers["content-security-policy"]).toMatch(
      /^default-src 'none'; base-uri 'none'/u,
    );
  });
});
