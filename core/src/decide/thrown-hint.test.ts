/** Tests of the hints on thrown errors: where clients put them, which one counts, hostile values. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { retryHintOf } from "./thrown-hint.ts";

const NOW = Date.UTC(2026, 10, 15, 12, 0, 0);

const thrown = (fields: object) => retryHintOf(Object.assign(new Error("x"), fields), NOW);

describe("Retry-After", () => {
  test.each([
    ["Headers", { headers: new Headers({ "Retry-After": "30" }) }],
    ["Headers of the response", { response: { headers: new Headers({ "retry-after": "30" }) } }],
    ["a Map", { headers: new Map([["Retry-After", "30"]]) }],
    ["a plain object", { headers: { "retry-after": "30" } }],
    ["a plain object in another case", { response: { headers: { "RETRY-AFTER": "30" } } }],
    ["a list of one", { headers: { "retry-after": ["30"] } }],
    ["a number", { headers: { "retry-after": 30 } }],
    [
      "an object without a prototype",
      { headers: Object.assign(Object.create(null), { "retry-after": "30" }) },
    ],
    ["the response of the AWS SDK", { $response: { headers: { "retry-after": "30" } } }],
    ["retryAfter in seconds", { retryAfter: 30 }],
    ["retryAfter as text", { retryAfter: "30" }],
    ["retryAfter as a date", { retryAfter: "Sun, 15 Nov 2026 12:00:30 GMT" }],
    ["retryAfterMs", { retryAfterMs: 30_000 }],
    ["retry-after-ms", { headers: { "retry-after-ms": "30000", "retry-after": "31" } }],
    ["a date", { headers: { "retry-after": "Sun, 15 Nov 2026 12:00:30 GMT" } }],
    [
      "a date with the response's own",
      {
        headers: {
          Date: "Sun, 15 Nov 2026 13:00:00 GMT",
          "Retry-After": "Sun, 15 Nov 2026 13:00:30 GMT",
        },
      },
    ],
  ])("in %s", (_, fields) => {
    expect(thrown(fields)).toEqual({ retryAfterMs: 30_000 });
  });

  test("0 is a hint", () => {
    expect(thrown({ retryAfterMs: 0 })).toEqual({ retryAfterMs: 0 });
    expect(thrown({ headers: { "retry-after": "0" } })).toEqual({ retryAfterMs: 0 });
  });

  test("the error's field takes precedence over its headers, and pushback over both", () => {
    const headers = { "retry-after": "5" };
    expect(thrown({ retryAfter: 7, headers })).toEqual({ retryAfterMs: 7000 });
    const metadata = { get: () => ["250"] };
    expect(thrown({ retryAfter: 7, headers, metadata })).toEqual({ retryAfterMs: 250 });
  });

  test.each([
    [{}],
    [{ headers: null, response: null, $response: null, metadata: null }],
    [{ headers: {}, response: {}, metadata: {} }],
    [{ headers: { "retry-after": ["5", "7"] } }],
    [{ headers: { "retry-after": "-5" } }],
    [{ headers: { "retry-after": "1.5" } }],
    [{ headers: { "retry-after": "soon" } }],
    [{ retryAfter: -1 }],
    [{ retryAfter: Number.NaN }],
    [{ retryAfter: Number.POSITIVE_INFINITY }],
    [{ retryAfter: true }],
    [{ retryAfter: {} }],
    [{ retryAfterMs: "soon" }],
    [{ retryAfterMs: -1 }],
    [{ headers: "retry-after: 5" }],
    [{ headers: 5 }],
    [{ response: "503" }],
  ])("%o has none", (fields) => {
    expect(thrown(fields)).toBeUndefined();
  });
});

describe("gRPC pushback", () => {
  const pushed = (value: unknown) =>
    thrown({
      code: 14,
      details: "",
      metadata: { get: (name: string) => (name === "grpc-retry-pushback-ms" ? value : []) },
    });

  test.each([
    [["250"], { retryAfterMs: 250 }],
    ["250", { retryAfterMs: 250 }],
    [[Buffer.from("250")], { retryAfterMs: 250 }],
    [["-1"], { refused: true }],
    [["soon"], { refused: true }],
    [[""], { refused: true }],
    [[], undefined],
    [null, undefined],
    [undefined, undefined],
  ])("%o", (value, expected) => {
    expect(pushed(value)).toEqual(expected);
  });
});

describe("whatever is thrown", () => {
  test("no value makes it throw", () => {
    fc.assert(
      fc.property(fc.anything(), fc.anything(), (value, inner) => {
        const all = { headers: inner, response: { headers: inner }, metadata: inner };
        const hints = [
          retryHintOf(value, NOW),
          thrown(all),
          thrown({ retryAfter: inner, retryAfterMs: value }),
        ];
        for (const hint of hints) expect(typeof (hint ?? {})).toBe("object");
      }),
    );
  });

  test("a getter or proxy that throws gives no hint", () => {
    const get = () => {
      throw new Error("no");
    };
    expect(retryHintOf(new Proxy(new Error("x"), { get }), NOW)).toBeUndefined();
    expect(thrown({ headers: new Proxy({}, { ownKeys: get }) })).toBeUndefined();
    expect(thrown({ metadata: { get } })).toBeUndefined();
    expect(thrown({ retryAfter: { toString: get } })).toBeUndefined();
    expect(thrown({ headers: { "retry-after": Symbol("30") } })).toBeUndefined();
    expect(thrown({ headers: new Map([[5, "30"]]) })).toBeUndefined();
  });
});
