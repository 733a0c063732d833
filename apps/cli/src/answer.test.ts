/** What `redrive dev` answers: real numbers, safe headers, and nobody but this machine. */
import { presets } from "@redrive/core";
import { describe, expect, test } from "vitest";
import { answer } from "./answer.ts";
import { span } from "./page.ts";

const ask = (url: string, method = "GET", host = "127.0.0.1:7337") =>
  answer({ url, method, headers: { host } });

describe("answer", () => {
  test("lists every preset with its waits, as JSON", () => {
    const { status, body } = ask("/policies.json");
    const { policies } = JSON.parse(body);
    expect(status).toBe(200);
    expect(policies.map(({ name }: { name: string }) => name)).toEqual(Object.keys(presets));
    expect(policies[0]).toMatchObject({ name: "default", ceilingsMs: [100, 200, 400, 800] });
  });

  test("shows every preset on the page, which loads no script", () => {
    const { body, headers } = ask("/");
    for (const name of Object.keys(presets)) expect(body).toContain(`>${name}<`);
    expect(body).toContain("100\u00a0ms, 200\u00a0ms, 400\u00a0ms, 800\u00a0ms");
    expect(body).not.toContain("<script");
    expect(headers["content-security-policy"]).toMatch(/^default-src 'none'; style-src 'self'/u);
  });

  test("is healthy, with or without a query", () => {
    expect(ask("/healthz?now").body).toBe('{"status":"ok"}\n');
  });

  test.each([
    ["/nothing", "GET", 404],
    ["/constructor", "GET", 404],
    ["/", "POST", 405],
  ])("%s by %s is refused with %d", (url, method, status) => {
    expect(ask(url, method).status).toBe(status);
  });

  test.each(["example.com", "127.0.0.1.example.com", "", "localhost:80@x"])(
    "the host name %j is refused",
    (host) => expect(ask("/", "GET", host).status).toBe(421),
  );
});

test("spans read as people say them", () => {
  const spans = [0, 999, 1000, 1500, 90_000, 3_600_000, 36_000_000].map(span);
  expect(spans).toEqual(["0 ms", "999 ms", "1 s", "1.5 s", "1.5 min", "1 h", "10 h"]);
});
