/** Feeds garbage to a guard's reader: every bad value in every field must be refused by name. */
import { expect } from "vitest";
import { RedriveError } from "./errors.ts";

const GARBAGE: readonly unknown[] = [
  undefined,
  "x",
  Number.NaN,
  -1,
  Number.POSITIVE_INFINITY,
  {},
  () => 0,
];

/** Returns the message of the refusal that `act` throws; fails if it throws nothing or another error. */
export function refusalOf(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    expect(error).toBeInstanceOf(RedriveError);
    expect((error as RedriveError).code).toBe("INVALID_ARGUMENT");
    return (error as RedriveError).message;
  }
  throw new Error("was not refused");
}

/** Replaces each field of `saved` by bad values, then adds a field, then replaces the whole value. */
export function expectGarbageRefused(
  name: string,
  saved: object,
  restore: (value: unknown) => unknown,
): void {
  for (const field of Object.keys(saved)) {
    for (const garbage of GARBAGE) {
      const message = refusalOf(() => restore({ ...saved, [field]: garbage }));
      expect(message).toContain(`${name}.${field}`);
    }
  }
  const later = refusalOf(() => restore({ ...saved, version: 2 }));
  expect(later).toBe(`${name}.version must be a whole number from 1 to 1, got 2`);
  expect(refusalOf(() => restore({ ...saved, extra: 1 }))).toContain(`"${name}.extra"`);
  for (const garbage of [undefined, null, 7, "saved", []]) {
    expect(refusalOf(() => restore(garbage))).toContain(`${name} must be an object`);
  }
}
