/** Tests of hints: good and bad forms, where servers and clients put them, which one counts, hostile values. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decide, OPEN_GATES } from "./decide.ts";
import { headerHint, parsePushback, parseRetryAfter, retryHintOf } from "./hints.ts";
import { statusOutcome } from "./outcome.ts";
import { resolvePolicy } from "./policy.ts";

const NOW = Date.UTC(2026, 10, 15, 12, 0, 0);

describe("good forms of Retry-After", () => {
  test.each([
    ["0", 0],
    ["5", 5000],
    ["005", 5000],
    ["120", 120_000],
    ["99999999999999999999", 1e15],
    ["Sun, 15 Nov 2026 12:00:30 GMT", 30_000],
    ["Sunday, 15-Nov-26 12:00:30 GMT", 30_000],
    ["Sun Nov 15 12:00:30 2026", 30_000],
    ["Thu, 01 Jan 2015 00:00:00 GMT", 0],
    ["Fri, 31 Dec 9999 23:59:59 GMT", Date.UTC(9999, 11, 31, 23, 59, 59) - NOW],
  ])("%j means %d ms", (text, expected) => {
    expect(parseRetryAfter(text, NOW)).toBe(expected);
  });

  test("a date is relative to the response's own Date, so the clocks may differ", () => {
    const date = "Sun, 15 Nov 2026 13:00:00 GMT";
    expect(parseRetryAfter("Sun, 15 Nov 2026 13:00:20 GMT", NOW, date)).toBe(20_000);
    expect(parseRetryAfter("Sun, 15 Nov 2026 12:00:20 GMT", NOW, "nonsense")).toBe(20_000);
    expect(parseRetryAfter("7", NOW, date)).toBe(7000);
  });

  test("one header in a list is that header", () => {
    expect(parseRetryAfter(["7"], NOW)).toBe(7000);
  });
});

describe("bad forms of Retry-After are ignored", () => {
  test.each([
    "-1",
    "1.5",
    "1e9",
    "0x10",
    "120, 30",
    "",
    " ",
    " 5",
    "5 ",
    "+5",
    "Infinity",
    "NaN",
    "5s",
    "٣",
    "2099-01-01",
    "2099-01-01T00:00:00Z",
    "tomorrow",
    "1,000",
    "5\n",
    "null",
    "12h",
  ])("%j", (text) => {
    expect(parseRetryAfter(text, NOW)).toBeUndefined();
  });

  test("no header, or several that contradict each other", () => {
    expect(parseRetryAfter(undefined, NOW)).toBeUndefined();
    expect(parseRetryAfter(null, NOW)).toBeUndefined();
    expect(parseRetryAfter([], NOW)).toBeUndefined();
    expect(parseRetryAfter(["120", "30"], NOW)).toBeUndefined();
  });

  test("only digits and the three formats of a date are accepted", () => {
    const date =
      /^(\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT|\w{6,9}, \d\d-\w{3}-\d\d \d\d:\d\d:\d\d GMT|\w{3} \w{3} [\d ]\d \d\d:\d\d:\d\d \d{4})$/;
    const likely = fc.stringMatching(/^[0-9A-Za-z ,:+.-]{0,32}$/);
    const nearlyDate = fc
      .tuple(
        fc.nat({ max: 28 }),
        fc.constantFrom("Sun, 06 Nov 1994 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"),
      )
      .chain(([at, text]) =>
        fc.string({ maxLength: 2 }).map((s) => text.slice(0, at) + s + text.slice(at + 1)),
      );
    fc.assert(
      fc.property(fc.oneof(fc.string(), likely, nearlyDate), (text) => {
        const hint = parseRetryAfter(text, NOW);
        if (!/^[0-9]+$/.test(text) && !date.test(text)) expect(hint).toBeUndefined();
        if (hint !== undefined) {
          expect(Number.isSafeInteger(hint)).toBe(true);
          expect(hint).toBeGreaterThanOrEqual(0);
        }
      }),
      { numRuns: 5000 },
    );
  });
});

describe("gRPC pushback", () => {
  test.each([
    ["0", 0],
    ["250", 250],
    ["-1", "refused"],
    ["", "refused"],
    ["soon", "refused"],
    ["1.5", "refused"],
    ["1e3", "refused"],
  ])("%j means %s", (text, expected) => {
    expect(parsePushback(text)).toBe(expected);
  });

  test("absent means nothing", () => {
    expect(parsePushback(undefined)).toBeUndefined();
    expect(parsePushback(null)).toBeUndefined();
  });
});

describe("the effect of a hint", () => {
  const policy = resolvePolicy({
    totalBudgetMs: 100_000,
    maxDelayMs: 1000,
    maxRetryAfterMs: 50_000,
  });
  const history = { attempt: 1, startedAt: 0, previousDelayMs: 0 };
  const answered = (status: number, hintMs: number, draw = 0) => {
    const random = { next: () => draw, fork: () => random };
    return decide(policy, {}, history, statusOutcome(status, hintMs), OPEN_GATES, 0, random);
  };

  test.each([200, 301, 400])("it is ignored on %d, which is not retried", (status) => {
    expect(answered(status, 5000).kind).toBe("stop");
  });

  test("429 and 503 wait for it, plus a spread", () => {
    expect(answered(503, 5000)).toMatchObject({ delayMs: 5000, source: "retry-after" });
    expect(answered(429, 5000, 0.999)).toMatchObject({ delayMs: 5500 });
  });

  test("a hint of 0 leaves the policy's own spread", () => {
    expect(answered(503, 0)).toMatchObject({ delayMs: 0 });
    expect(answered(503, 0, 0.999)).toMatchObject({ delayMs: 100 });
  });

  test("a hint longer than maxRetryAfterMs is clamped to it", () => {
    expect(answered(503, 80_000)).toMatchObject({ delayMs: 50_000 });
  });
});

const thrown = (fields: object) =>
  retryHintOf(Object.assign(new Error("x"), fields), NOW, undefined);

describe("the hint on a thrown error", () => {
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

describe("gRPC pushback on a thrown error", () => {
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
          retryHintOf(value, NOW, 429),
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
    expect(retryHintOf(new Proxy(new Error("x"), { get }), NOW, 503)).toBeUndefined();
    expect(thrown({ headers: new Proxy({}, { ownKeys: get }) })).toBeUndefined();
    expect(thrown({ metadata: { get } })).toBeUndefined();
    expect(thrown({ retryAfter: { toString: get } })).toBeUndefined();
    expect(thrown({ headers: { "retry-after": Symbol("30") } })).toBeUndefined();
    expect(thrown({ headers: new Map([[5, "30"]]) })).toBeUndefined();
  });
});

describe("the headers of a response", () => {
  const hint = (headers: Record<string, unknown>, status = 503) =>
    headerHint((name) => headers[name], status, NOW);
  const inSeconds = NOW / 1000 + 20;

  test.each([
    ["retry-after", "20"],
    ["retry-after-ms", "20000"],
    ["x-ms-retry-after-ms", "20000"],
    ["x-amz-retry-after", "20000"],
    ["grpc-retry-pushback-ms", "20000"],
    ["ratelimit-reset", "20"],
    ["ratelimit", '"hour";r=0;t=20'],
    ["ratelimit", '"hour";r=4000;t=3000, "minute";r=0;t=20'],
    ["x-ratelimit-reset", "20"],
    ["x-ratelimit-reset", String(inSeconds)],
    ["x-ratelimit-reset", String(inSeconds * 1000)],
    ["x-ratelimit-reset-requests", "20s"],
    ["x-ratelimit-reset-tokens", "0m19.5s500ms"],
  ])("%s: %s asks for 20 s", (name, value) => {
    expect(hint({ [name]: value })).toEqual({ retryAfterMs: 20_000 });
  });

  test("the end of a quota counts only if the quota is used up, with 429 and 503, and without Retry-After", () => {
    const reset = { "x-ratelimit-reset": "20" };
    expect(hint({ ...reset, "x-ratelimit-remaining": "0" }, 429)).toEqual({ retryAfterMs: 20_000 });
    expect(hint({ ...reset, "x-ratelimit-remaining": "7" }, 429)).toBeUndefined();
    expect(hint(reset, 500)).toBeUndefined();
    expect(hint({ ...reset, "retry-after": "2" })).toEqual({ retryAfterMs: 2000 });
    expect(hint({ ratelimit: '"hour";r=1;t=3000' })).toBeUndefined();
  });

  test("the longest of several exhausted quotas counts", () => {
    const both = { "x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0s" };
    expect(hint(both)).toEqual({ retryAfterMs: 360_000 });
    expect(hint({ ...both, "x-ratelimit-remaining-tokens": "9" })).toEqual({ retryAfterMs: 1000 });
  });

  test.each(["x-should-retry", "stripe-should-retry"])("%s: false refuses a retry", (name) => {
    expect(hint({ [name]: "false", "retry-after": "5" })).toEqual({ refused: true });
    expect(hint({ [name]: "true", "retry-after": "5" })).toEqual({ retryAfterMs: 5000 });
  });

  test.each(["", "soon", "-5", "1e3", "1.5.5", "5x", "s", "20 s", "null"])(
    "%j is no end of a quota",
    (value) => expect(hint({ "x-ratelimit-reset": value, ratelimit: value })).toBeUndefined(),
  );

  test("no text of a server gives a hint that is not a whole number from 0 to 1e15", () => {
    const names = ["retry-after", "retry-after-ms", "ratelimit", "ratelimit-reset"];
    const values = fc.oneof(fc.string(), fc.stringMatching(/^[\d.hms]{1,20}$/), fc.integer());
    fc.assert(
      fc.property(fc.constantFrom(...names), values, (name, value) => {
        const { retryAfterMs = 0 } = hint({ [name]: value }, 429) ?? {};
        expect(Number.isInteger(retryAfterMs)).toBe(true);
        expect(retryAfterMs).toBeGreaterThanOrEqual(0);
        expect(retryAfterMs).toBeLessThanOrEqual(1e15);
      }),
    );
  });
});
