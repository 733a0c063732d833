/** Tests of reading documents that another version of Redrive has stored. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readDestination, readPolicy } from "./stored-documents.ts";

const text = (document: unknown) => JSON.stringify(document);

describe("a stored policy", () => {
  it("is read without its unknown fields, which are named", () => {
    const reading = readPolicy(text({ maxAttempts: 3, "a.b": 1, quantum: { x: 1 } }));
    expect(reading).toMatchObject({
      kind: "read",
      value: { maxAttempts: 3 },
      ignored: ["a.b", "quantum"],
    });
  });

  it.each([
    ["{", "not a JSON object"],
    ["[]", "not a JSON object"],
    ["null", "not a JSON object"],
    [text({ backoff: "QUANTUM" }), 'got "QUANTUM"'],
    [text({ maxAttempts: "3", other: 1 }), 'got "3"'],
    [text({ initialDelayMs: 1000, maxDelayMs: 1 }), "maxDelayMs"],
  ])("%s is unreadable", (stored, reason) => {
    expect(readPolicy(stored)).toMatchObject({
      kind: "unreadable",
      reason: expect.stringContaining(reason),
    });
  });

  it("never throws", () => {
    fc.assert(fc.property(fc.string(), (any) => typeof readPolicy(any).kind === "string"));
    fc.assert(
      fc.property(fc.object(), (any) => typeof readDestination(text(any)).kind === "string"),
    );
  });
});

describe("a stored destination", () => {
  it("is read without unknown fields of its parts", () => {
    const stored = text({ breaker: { openMs: 1000, later: 1 }, newGuard: {} });
    const reading = readDestination(stored);
    expect(reading).toMatchObject({ kind: "read", value: { breaker: { openMs: 1000 } } });
    expect(reading.kind === "read" && reading.ignored.toSorted()).toEqual([
      "breaker.later",
      "newGuard",
    ]);
  });

  it("with an unknown value in a part is unreadable", () => {
    expect(readDestination(text({ concurrency: { algorithm: "PSYCHIC" } })).kind).toBe(
      "unreadable",
    );
  });
});
