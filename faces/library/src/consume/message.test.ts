/** Tests of the state that a broker keeps with a message. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  adoptLost,
  decodeState,
  describeError,
  describeInOneLine,
  encodeState,
  freshState,
  MAX_ERROR_LENGTH,
  MAX_RECORDS,
  type MessageState,
  withRecord,
} from "./message.ts";

const records = fc.record(
  {
    attempt: fc.integer({ min: 1, max: 1000 }),
    at: fc.nat(),
    durationMs: fc.nat(),
    verdict: fc.constantFrom("transient", "throttled", "terminal", "lost"),
    error: fc.string({ maxLength: MAX_ERROR_LENGTH }),
    delayMs: fc.nat(),
  },
  { requiredKeys: ["attempt", "at", "verdict"] },
);
const states = fc.record(
  {
    attempts: fc.nat({ max: 1000 }),
    startedAt: fc.nat(),
    previousDelayMs: fc.nat(),
    isThrottled: fc.boolean(),
    lost: fc.nat({ max: 100 }),
    deferrals: fc.nat({ max: 100 }),
    programErrors: fc.nat({ max: 3 }),
    history: fc.array(records, { maxLength: MAX_RECORDS }),
  },
  {
    requiredKeys: ["attempts", "startedAt", "previousDelayMs", "isThrottled", "lost", "history"],
  },
);

test("is the same after it was written and read", () => {
  fc.assert(
    fc.property(states, (state) => {
      expect(decodeState(encodeState(state as MessageState))).toEqual(state);
    }),
  );
});

describe("a state that nobody wrote", () => {
  test.each([
    "",
    "{",
    "null",
    "[]",
    "{}",
    JSON.stringify({ ...freshState(0), attempts: -1 }),
    JSON.stringify({ ...freshState(0), attempts: 1.5 }),
    JSON.stringify({ ...freshState(0), startedAt: "now" }),
    JSON.stringify({ ...freshState(0), history: [{ attempt: 1 }] }),
    JSON.stringify({ ...freshState(0), history: Array(MAX_RECORDS + 1).fill({}) }),
    JSON.stringify({
      ...freshState(0),
      history: [{ attempt: 1, at: 0, verdict: "lost", error: "x".repeat(MAX_ERROR_LENGTH + 1) }],
    }),
  ])("counts for nothing: %s", (text) => {
    expect(decodeState(text)).toBeUndefined();
  });

  test("never makes the reader throw", () => {
    fc.assert(fc.property(fc.json(), (text) => void decodeState(text)));
  });
});

test("the history keeps the first record and the latest ones", () => {
  let history: MessageState["history"] = [];
  for (let attempt = 1; attempt <= 50; attempt++) {
    history = withRecord(history, { attempt, at: 0, verdict: "transient" });
  }
  expect(history).toHaveLength(MAX_RECORDS);
  expect(history.map(({ attempt }) => attempt).slice(0, 2)).toEqual([1, 32]);
  expect(history.at(-1)?.attempt).toBe(50);
});

test("lost deliveries but the first in a row count as attempts, and are recorded", () => {
  const state = adoptLost({ ...freshState(5), attempts: 2 }, 2, 9);
  expect(state).toMatchObject({ attempts: 3, lost: 2, startedAt: 5 });
  expect(state.history).toEqual([{ attempt: 3, at: 9, verdict: "lost" }]);
  expect(adoptLost(state, 1, 10)).toMatchObject({ attempts: 4, lost: 3 });
  expect(adoptLost(freshState(5), 1, 9)).toMatchObject({ attempts: 0, lost: 1 });
});

describe("the description of an error", () => {
  test("has its name, its code and its message, in one line", () => {
    const error = Object.assign(new TypeError("no\n  connection"), { code: "ECONNRESET" });
    expect(describeInOneLine(describeError, error)).toBe("TypeError ECONNRESET: no connection");
    expect(describeInOneLine(describeError, "text")).toBe("string: text");
    expect(describeInOneLine(describeError, undefined)).toBe("undefined: undefined");
  });

  test("is bounded, and never throws", () => {
    expect(describeInOneLine(describeError, new Error("x".repeat(9999)))).toHaveLength(300);
    const hostile = {
      get name(): string {
        throw new Error("no");
      },
    };
    expect(describeInOneLine(describeError, hostile)).toBe("an error that cannot be described");
  });
});
