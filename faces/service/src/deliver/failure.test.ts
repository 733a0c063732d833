/**
 * Tests which errors are a shortage of this process and not a failure of the target. Tests of the
 * default number of attempts at once.
 */
import { describe, expect, it } from "vitest";
import {
  defaultAttemptsAtOnce,
  failureOf,
  LookupFailed,
  openFileLimit,
  softLimitIn,
} from "./failure.ts";

const withCode = (code: string) => Object.assign(new Error(code), { code });

/** The error of Node for a connection that was tried at several addresses. */
const ofAddresses = (...codes: readonly string[]) =>
  Object.assign(new AggregateError(codes.map(withCode), "no address answered"), { code: codes[0] });

describe("a shortage of this process", () => {
  it.each([
    ["no file is left", withCode("EMFILE"), "node"],
    ["no file is left for one of two addresses", ofAddresses("ECONNREFUSED", "EMFILE"), "node"],
    ["no port is left", withCode("EADDRNOTAVAIL"), "origin"],
    ["no port is left for any address", ofAddresses("EADDRNOTAVAIL", "EADDRNOTAVAIL"), "origin"],
    ["too many lookups are in progress", new LookupFailed("TOO_MANY_LOOKUPS"), "origin"],
  ])("is found: %s", (_, error, shortage) => {
    expect(failureOf(error, false).shortage).toBe(shortage);
  });

  it.each([
    ["the target refuses", withCode("ECONNREFUSED")],
    [
      "the machine has no IPv6, and the target refuses",
      ofAddresses("EADDRNOTAVAIL", "ECONNREFUSED"),
    ],
    ["the name does not exist", new LookupFailed("ENOTFOUND")],
  ])("is not assumed if %s", (_, error) => {
    expect(failureOf(error, false).shortage).toBeUndefined();
  });

  it("is not assumed after the request was sent", () => {
    expect(failureOf(withCode("EMFILE"), true).shortage).toBeUndefined();
  });
});

it("reads the soft limit of the process", () => {
  const text =
    "Limit            Soft Limit  Hard Limit  Units\nMax open files   256         524288      files\n";
  expect(softLimitIn(text)).toBe(256);
  expect(softLimitIn("Max open files   unlimited   unlimited   files\n")).toBeUndefined();
  if (process.platform === "linux") expect(openFileLimit()).toBeGreaterThan(0);
});

it("runs at most 1024 attempts at once, and uses at most half of the files", () => {
  expect([undefined, 1_000_000, 256, 1].map(defaultAttemptsAtOnce)).toEqual([1024, 1024, 128, 1]);
});
