/** Replay: the same outage under another policy, and errors for a bad log. */
import { describe, expect, it } from "vitest";
import { outcomeOf, replay } from "./replay.ts";

/** 50 tasks, one every 100 ms; the destination is down from 1 s to 9 s. */
function log(waitMs: number, attempts: number): string {
  const lines: string[] = [];
  for (let task = 0; task < 200; task++) {
    let startedAt = task * 100;
    for (let attemptNumber = 1; attemptNumber <= attempts; attemptNumber++) {
      const ok = startedAt < 1000 || startedAt >= 9000;
      lines.push(
        JSON.stringify({
          taskId: `t${task}`,
          attemptNumber,
          startedAt,
          durationMs: 10,
          outcome: ok ? "success" : "failure",
          responseStatus: ok ? 200 : 503,
          errorClass: null,
        }),
      );
      if (ok) break;
      startedAt += 10 + waitMs;
    }
  }
  return `${lines.join("\n")}\n\n`;
}

function parsed(ndjson: string): { readonly taskId: string }[] {
  return ndjson
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as { taskId: string });
}

describe("replay", () => {
  it("shows how many tasks a longer policy would have saved", () => {
    const policy = {
      maxAttempts: 8,
      initialDelayMs: 500,
      maxDelayMs: 20_000,
      jitterType: "EQUAL",
      totalBudgetMs: 60_000,
    } as const;
    const result = replay(log(200, 3), policy, { seed: 3 });
    expect(result.tasks).toBe(200);
    expect(result.logged.exhausted).toBeGreaterThan(60);
    expect(result.replayed.exhausted).toBe(0);
    expect(result.replayed.succeeded).toBe(200);
    expect([result.failuresFromAt, result.failuresToAt]).toEqual([1000, 8920]);
    expect(replay(log(200, 3), policy, { seed: 3 })).toEqual(result);
  });

  it("counts all attempts of both policies over time", () => {
    const { series, logged, replayed } = replay(log(200, 3), { maxAttempts: 6 });
    const sum = (counts: readonly number[]) => counts.reduce((all, one) => all + one, 0);
    expect([sum(series.logged), sum(series.replayed)]).toEqual([
      logged.attempts,
      replayed.attempts,
    ]);
    expect(Math.max(...series.logged)).toBe(logged.peakPerSecond);
    expect([series.fromAt, series.binMs]).toEqual([0, 1000]);
    expect(replay("", {}).series).toEqual({ fromAt: 0, binMs: 1000, logged: [0], replayed: [0] });
  });

  it("keeps successes and counts attempts with guessed outcomes", () => {
    const once = replay(log(200, 3), { maxAttempts: 1 });
    expect(once.replayed.attempts).toBe(200);
    const far = replay(log(200, 3), {
      delaysMs: [600_000],
      totalBudgetMs: 3_600_000,
      jitterType: "NONE",
    });
    expect(far.guessed).toBe(once.replayed.exhausted);
  });

  it("reads the format of redrive tasks export: one task per line, with its attempts", () => {
    const attempts = parsed(log(200, 3)).reduce(
      (tasks, { taskId, ...attempt }) => tasks.set(taskId, [...(tasks.get(taskId) ?? []), attempt]),
      new Map<string, object[]>(),
    );
    const lines = [...attempts].map(([taskId, list]) =>
      JSON.stringify({ task: { taskId, destination: "d", status: "EXHAUSTED" }, attempts: list }),
    );
    const policy = { maxAttempts: 6 };
    expect(replay(lines.join("\n"), policy)).toEqual(replay(log(200, 3), policy));
  });

  it("reads from an exported task whether it has ended, is idempotent, and got a Retry-After", () => {
    const attempt = { attemptNumber: 1, startedAt: 1000, durationMs: 10, outcome: "status" };
    const line = (task: object, rest: object = {}) =>
      JSON.stringify({
        task: { taskId: "a", destination: "d", ...task },
        attempts: [{ ...attempt, responseStatus: 503, ...rest }],
      });
    const waiting = replay(line({ status: "PENDING" }), { maxAttempts: 2 });
    expect(waiting.logged).toMatchObject({ exhausted: 0, unfinished: 1 });
    expect(waiting.replayed).toMatchObject({ exhausted: 1, unfinished: 0, attempts: 2 });
    const once = replay(line({ idempotent: false }), { maxAttempts: 5 });
    expect(once.replayed.attempts).toBe(1);
    const hinted = replay(line({}, { responseHeaders: { "retry-after": "20" } }), {
      maxAttempts: 2,
      initialDelayMs: 0,
    });
    // 20 s plus up to a tenth after the first attempt.
    expect(hinted.series.replayed.length).toBeGreaterThan(20);
  });

  it("names the line that it cannot read", () => {
    const bad = (change: object) =>
      JSON.stringify({ taskId: "a", attemptNumber: 1, startedAt: 5, durationMs: 1, ...change });
    expect(() => replay(`${bad({})}\n${bad({ durationMs: -3 })}`, {})).toThrow(
      "line 2 must be an attempt with durationMs of 0 or more, got -3",
    );
    expect(() => replay('{"task":{"taskId":"a"},"attempts":[{}]}', {})).toThrow(
      "line 1 must be an attempt with attemptNumber",
    );

    expect(() => replay('{"taskId":"a"}', {})).toThrow(
      "line 1 must be an attempt with attemptNumber",
    );
    expect(() => replay("\nnot json", {})).toThrow('line 2 must be JSON, got "not json"');
    expect(() => replay("5", {})).toThrow("line 1 must be an attempt with fields");
  });

  it("accepts an empty log", () => {
    expect(replay("", {})).toMatchObject({ tasks: 0, failuresFromAt: null });
  });
});

// Tests of the outcomes of a log: statuses of HTTP, codes of gRPC, and their hints.

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
