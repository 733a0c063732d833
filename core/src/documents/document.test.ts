/**
 * Tests of documents: what is refused, with which message and suggestion.
 * Tests of saved state: exactly its fields, refused by name.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  amountRule,
  booleanRule,
  checkFields,
  choiceRule,
  countRule,
  DocumentError,
  fieldProblem,
  instantRule,
  listRule,
  numberRule,
  readSavedState,
  textRule,
  versionRule,
} from "./document.ts";
import { nearestName } from "./nearest-name.ts";
import { refusalOf } from "./saved-state.testing.ts";

describe("document", () => {
  const FIELDS = {
    count: numberRule(1, 10),
    share: numberRule(0, 1, true),
    color: choiceRule("RED", "BLUE"),
    marks: listRule(numberRule(0, 9), 1, 3),
    name: textRule(/^[a-z]+$/, "small letters"),
    on: booleanRule,
  };

  const messages = (document: unknown, prefix?: string) =>
    checkFields(document, FIELDS, prefix).map((one) => one.message);

  describe("fields", () => {
    test("a good document has no problems, and undefined counts as absent", () => {
      const good = { count: 1, share: 0.5, color: "RED", marks: [0, 9], name: "x", on: false };
      expect(checkFields(good, FIELDS)).toEqual([]);
      expect(checkFields({ count: undefined }, FIELDS)).toEqual([]);
    });

    test.each([
      [{ count: 0 }, "count must be a whole number from 1 to 10, got 0"],
      [{ count: 11 }, "count must be a whole number from 1 to 10, got 11"],
      [{ count: 1.5 }, "count must be a whole number from 1 to 10, got 1.5"],
      [{ count: "3" }, 'count must be a whole number from 1 to 10, got "3"'],
      [{ count: Number.NaN }, "count must be a whole number from 1 to 10, got NaN"],
      [
        { count: Number.POSITIVE_INFINITY },
        "count must be a whole number from 1 to 10, got Infinity",
      ],
      [{ count: null }, "count must be a whole number from 1 to 10, got null"],
      [{ share: 1.01 }, "share must be a number from 0 to 1, got 1.01"],
      [{ color: "red" }, 'color must be one of RED, BLUE, got "red"'],
      [{ marks: [] }, "marks must be a list of 1 to 3 entries, got []"],
      [{ marks: [1, 2, 3, 4] }, "marks must be a list of 1 to 3 entries, got [1,2,3,4]"],
      [{ marks: 7 }, "marks must be a list of 1 to 3 entries, got 7"],
      [
        { marks: [1, 99] },
        "marks must be a list in which each entry is a whole number from 0 to 9, got [1,99]",
      ],
      [{ name: "A" }, 'name must be small letters, got "A"'],
      [{ name: 5 }, "name must be small letters, got 5"],
      [{ on: 1 }, "on must be true or false, got 1"],
    ])("%o is refused by name and value", (document, message) => {
      expect(messages(document)).toEqual([message]);
    });

    test("what is not an object is refused by its name", () => {
      for (const value of [null, [], "x", 5, undefined]) {
        expect(messages(value)[0]).toMatch(/^options must be an object, got /);
      }
      const [problem] = checkFields(5, FIELDS, "", "the task");
      expect(problem).toEqual({
        field: "",
        value: 5,
        message: "the task must be an object, got 5",
      });
      expect(messages([], "breaker.")).toEqual(["breaker must be an object, got []"]);
    });

    test("a misspelled field gets a suggestion, an unrelated one does not", () => {
      expect(messages({ cuont: 1 })).toEqual(['unknown field "cuont", did you mean "count"?']);
      expect(messages({ colors: 1 })).toEqual(['unknown field "colors", did you mean "color"?']);
      expect(messages({ zzzzzz: 1 })).toEqual(['unknown field "zzzzzz"']);
      expect(messages({ cuont: 1 }, "a.")).toEqual([
        'unknown field "a.cuont", did you mean "count"?',
      ]);
    });

    test("names that every object inherits are unknown fields", () => {
      const hostile: unknown = JSON.parse(
        '{"__proto__": {"count": 1}, "constructor": 1, "toString": 1}',
      );
      expect(checkFields(hostile, FIELDS)).toHaveLength(3);
    });

    test("no value makes the check throw", () => {
      fc.assert(fc.property(fc.anything(), (value) => Array.isArray(checkFields(value, FIELDS))));
      fc.assert(
        fc.property(fc.anything(), (value) => Array.isArray(checkFields({ count: value }, FIELDS))),
      );
    });

    test("a long value is shortened in the message and complete in the problem", () => {
      const [one] = checkFields({ name: "X".repeat(500) }, FIELDS);
      expect(one?.message.length).toBeLessThan(140);
      expect(one?.value).toBe("X".repeat(500));
    });
  });

  describe("DocumentError", () => {
    test("contains all problems", () => {
      const problems = [fieldProblem("a", 1, "a must be 2"), fieldProblem("b", 3, "b must be 4")];
      const error = new DocumentError("INVALID_POLICY", problems);
      expect(error.message).toBe("a must be 2, got 1; b must be 4, got 3");
      expect(error.problems).toEqual(problems);
      expect(error.code).toBe("INVALID_POLICY");
      expect(error).toMatchObject({ reason: undefined, attempts: [], name: "RedriveError" });
    });
  });

  describe("nearestName", () => {
    test("finds a name with one typo, in upper or lower case", () => {
      expect(nearestName("maxattempts", ["maxDelayMs", "maxAttempts"])).toBe("maxAttempts");
      expect(nearestName("retries", ["maxAttempts", "backoff"])).toBeUndefined();
    });

    test("is fast for extremely long names", () => {
      expect(nearestName("x".repeat(100_000), ["count"])).toBeUndefined();
    });

    test("a known name is nearest to itself", () => {
      const known = ["alpha", "alpine", "beta"];
      for (const name of known) expect(nearestName(name, known)).toBe(name);
    });
  });
});

describe("saved state", () => {
  const FIELDS = { version: versionRule, size: numberRule(1, 9) };
  const read = (value: unknown) =>
    readSavedState<{ version: 1; size: number }>("thing", value, FIELDS);

  test("a value with all its fields is returned unchanged", () => {
    const saved = { version: 1, size: 3 };
    expect(read(saved)).toBe(saved);
  });

  test("a bad field is refused by its path and with its value", () => {
    const message = refusalOf(() => read({ version: 1, size: 12 }));
    expect(message).toBe("thing.size must be a whole number from 1 to 9, got 12");
  });

  test("a missing field is refused, and so is an additional one", () => {
    const missing = refusalOf(() => read({ version: 1 }));
    expect(missing).toBe("thing.size must be present, got undefined");
    const unknown = refusalOf(() => read({ version: 1, size: 1, sise: 1 }));
    expect(unknown).toBe('unknown field "thing.sise", did you mean "size"?');
  });

  test("instants and counts are integers, amounts may be fractional, and none is negative or infinite", () => {
    for (const rule of [instantRule, countRule]) {
      expect(rule(1_700_000_000_000)).toBeUndefined();
      expect(rule(0.5)).toBeDefined();
    }
    expect(amountRule(0.5)).toBeUndefined();
    for (const rule of [instantRule, countRule, amountRule]) {
      expect(rule(-1)).toBeDefined();
      expect(rule(2 ** 53)).toBeDefined();
    }
  });
});
