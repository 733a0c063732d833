/** Expect row: compares what was seen of a row with the table. */
import { expect } from "vitest";
import { type HostileRow, POLICIES } from "./hostile-row.ts";
import type { HostileResult } from "./results.ts";

export function expectRow(row: HostileRow, seen: HostileResult | undefined): void {
  const { expected, policy, server, expectedFacts } = row;
  expect(seen).toMatchObject({ summary: expected, attempts: 1 });
  expect(seen?.facts).toEqual(expectedFacts);
  expect(seen?.requests).toBeLessThanOrEqual(1);
  expect(seen?.durationMs).toBeLessThan(POLICIES.ample.attemptTimeoutMs);
  if (policy === "short") {
    expect(seen?.durationMs).toBeGreaterThanOrEqual(POLICIES.short.attemptTimeoutMs - 1);
  }
  const isAsked = server?.greet === undefined && server?.tls === undefined;
  expect(seen?.honest).toBe(isAsked ? "SUCCEEDED 1 honest" : "not asked");
}
