/** Tests of the trace context of an attempt. */
import { describe, expect, it } from "vitest";
import { cryptoHex, newTraceparent } from "./trace.ts";

describe("a new trace", () => {
  it("is a W3C traceparent from the given random source", () => {
    const hex = (bytes: number) => "ab".repeat(bytes);
    expect(newTraceparent(hex)).toBe(`00-${"ab".repeat(16)}-${"ab".repeat(8)}-01`);
  });

  it("never repeats with the system's random source", () => {
    const hex = cryptoHex();
    const traces = Array.from({ length: 2000 }, () => newTraceparent(hex));
    expect(new Set(traces).size).toBe(2000);
    for (const trace of traces) expect(trace).toMatch(/^00-[\da-f]{32}-[\da-f]{16}-01$/);
  });
});
