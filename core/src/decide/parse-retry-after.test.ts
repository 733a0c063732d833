/** Tests of Retry-After and pushback: good and bad forms, and a fuzz test. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { resolvePolicy } from "../policy/policy.ts";
import { decide, OPEN_GATES } from "./decide.ts";
import { statusOutcome } from "./outcome.ts";
import { parsePushback, parseRetryAfter } from "./parse-retry-after.ts";

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
