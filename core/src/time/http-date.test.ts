/** Tests of HTTP-dates: the three formats, the calendar, and nothing else. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseHttpDate } from "./http-date.ts";

const NOW = Date.UTC(2026, 10, 15);

test.each([
  ["Sun, 06 Nov 1994 08:49:37 GMT", Date.UTC(1994, 10, 6, 8, 49, 37)],
  ["Sunday, 06-Nov-94 08:49:37 GMT", Date.UTC(1994, 10, 6, 8, 49, 37)],
  ["Sun Nov  6 08:49:37 1994", Date.UTC(1994, 10, 6, 8, 49, 37)],
  ["Wed Nov 16 08:49:37 1994", Date.UTC(1994, 10, 16, 8, 49, 37)],
  // The name of the weekday is not checked against the date.
  ["Mon, 06 Nov 1994 08:49:37 GMT", Date.UTC(1994, 10, 6, 8, 49, 37)],
  ["Thu, 29 Feb 2024 00:00:00 GMT", Date.UTC(2024, 1, 29)],
  ["Fri, 31 Dec 9999 23:59:59 GMT", Date.UTC(9999, 11, 31, 23, 59, 59)],
  ["Sat, 31 Dec 2016 23:59:60 GMT", Date.UTC(2017, 0, 1)],
  ["Monday, 01-Jan-76 00:00:00 GMT", Date.UTC(2076, 0, 1)],
  ["Monday, 01-Jan-77 00:00:00 GMT", Date.UTC(1977, 0, 1)],
])("%s is read", (text, expected) => {
  expect(parseHttpDate(text, NOW)).toBe(expected);
});

test.each([
  "Sun, 6 Nov 1994 08:49:37 GMT",
  "Sun, 06 Nov 1994 08:49:37",
  "Sun, 06 Nov 1994 08:49:37 UTC",
  "Sun, 06 Nov 1994 08:49:37 +0000",
  "sun, 06 nov 1994 08:49:37 GMT",
  "Sun, 06 Nov 94 08:49:37 GMT",
  "Sun, 31 Feb 2027 08:49:37 GMT",
  "Thu, 29 Feb 2023 08:49:37 GMT",
  "Fri, 29 Feb 1900 08:49:37 GMT",
  "Sun, 31 Apr 2027 08:49:37 GMT",
  "Sun, 00 Nov 1994 08:49:37 GMT",
  "Sun, 06 Nov 1994 24:00:00 GMT",
  "Sun, 06 Nov 1994 08:60:37 GMT",
  "Sun, 06 Nov 1994 08:49:61 GMT",
  "Sun, 06 Non 1994 08:49:37 GMT",
  " Sun, 06 Nov 1994 08:49:37 GMT",
  "Sun, 06 Nov 1994 08:49:37 GMT\n",
  "Sun,  6 Nov 1994 08:49:37 GMT",
  "Sun, 06-Nov-94 08:49:37 GMT",
  "Sun, 06 Nov 19940 08:49:37 GMT",
  "06 Nov 1994 08:49:37 GMT",
  "Sun Nov 31 08:49:37 1994",
  "Sunday, 31-Nov-94 08:49:37 GMT",
  "2099-01-01",
  "2026-11-15T00:00:00Z",
  "tomorrow",
  "",
])("%j is not", (text) => {
  expect(parseHttpDate(text, NOW)).toBeUndefined();
});

describe("any instant", () => {
  test("round-trips through the format that every server uses", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 253_402_300_799 }), (seconds) => {
        expect(parseHttpDate(new Date(seconds * 1000).toUTCString(), NOW)).toBe(seconds * 1000);
      }),
    );
  });

  test("before 1970 counts too", () => {
    expect(parseHttpDate("Wed, 01 Jan 1800 00:00:00 GMT", NOW)).toBe(Date.UTC(1800, 0, 1));
  });
});
