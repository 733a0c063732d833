/** Tests of the default number of attempts at once. */
import { expect, it } from "vitest";
import { defaultAttemptsAtOnce, openFileLimit, softLimitIn } from "./open-file-limit.ts";

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
