/** Tests of the outcomes of a log: statuses of HTTP, codes of gRPC, and their hints. */
import { expect, it } from "vitest";
import { outcomeOf } from "./replay-log.ts";

const attempt = (more: object) =>
  outcomeOf({ taskId: "a", attemptNumber: 1, startedAt: 0, durationMs: 1, ...more });

it("reads a status of HTTP with its Retry-After", () => {
  const responseHeaders = { "retry-after": "2" };
  expect(attempt({ outcome: "status", responseStatus: 503, responseHeaders })).toEqual({
    kind: "status",
    status: 503,
    retryAfterMs: 2000,
  });
});

it("reads a code of gRPC with its pushback", () => {
  const grpc = (pushback?: string) =>
    attempt({
      outcome: "grpc",
      responseStatus: 14,
      responseHeaders: pushback === undefined ? null : { "grpc-retry-pushback-ms": pushback },
    });
  expect(grpc()).toEqual({ kind: "grpc", code: "UNAVAILABLE" });
  expect(grpc("70")).toEqual({ kind: "grpc", code: "UNAVAILABLE", retryAfterMs: 70 });
  expect(grpc("-1")).toEqual({ kind: "grpc", code: "UNAVAILABLE", refused: true });
  expect(attempt({ outcome: "success", responseStatus: 0 })).toEqual({ kind: "success" });
});
