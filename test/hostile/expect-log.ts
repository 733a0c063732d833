/** Expect log: a line of a log is JSON and has no control characters, whatever targets send. */
import { expect } from "vitest";

export function expectLog(lines: readonly string[]): void {
  expect(lines).not.toEqual([]);
  for (const line of lines) {
    expect(() => JSON.parse(line)).not.toThrow();
    expect([...line].every((character) => character >= " ")).toBe(true);
  }
}
