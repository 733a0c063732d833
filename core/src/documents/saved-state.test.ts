/** Tests of saved state: exactly its fields, refused by name. */
import { expect, test } from "vitest";
import { numberRule } from "./document.ts";
import { refusalOf } from "./saved-state.testing.ts";
import { amountRule, countRule, instantRule, readSavedState, versionRule } from "./saved-state.ts";

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
