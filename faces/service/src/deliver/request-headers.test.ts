/** Tests of the trace context of an attempt. */
import { describe, expect, it } from "vitest";
import { attemptTraceparent, cryptoHex, isTraceparent } from "./deliverer.ts";

const TASK = "0190b4c8-0000-7000-8000-000000000001";
const hex = (bytes: number) => "ab".repeat(bytes);

describe("the trace of an attempt", () => {
  it("has the id of the task, and a span of its own", () => {
    const trace = attemptTraceparent(undefined, TASK, hex);
    expect(trace).toBe(`00-0190b4c8000070008000000000000001-${"ab".repeat(8)}-01`);
  });

  it("continues the caller's trace with its flags", () => {
    const parent = `00-${"1".repeat(32)}-${"2".repeat(16)}-00`;
    const trace = attemptTraceparent(parent, TASK, hex);
    expect(trace).toBe(`00-${"1".repeat(32)}-${"ab".repeat(8)}-00`);
  });

  it("is random if the task's id is not a UUID", () => {
    expect(attemptTraceparent(undefined, "t-1", hex)).toBe(`00-${hex(16)}-${hex(8)}-01`);
  });

  it("never repeats a span with the system's random source", () => {
    const source = cryptoHex();
    const traces = Array.from({ length: 2000 }, () => attemptTraceparent(undefined, TASK, source));
    expect(new Set(traces).size).toBe(2000);
    expect(traces.every(isTraceparent)).toBe(true);
  });
});
