/** A line of an export becomes a task, or is refused with the name of the wrong field. */
import { RedriveError } from "@redrive/core";
import { describe, expect, test } from "vitest";
import { parseImportLine } from "./exported-tasks.ts";

const task = {
  taskId: "t1",
  status: "PENDING",
  targetUrl: "https://example.com/orders",
  method: "POST",
  headers: { "content-type": "text/plain", authorization: "***" },
  destination: "https://example.com",
  idempotent: true,
  labels: { shop: "north", "redrive.callback": "task-0" },
  policyId: "background",
  idempotencyKey: null,
  nextAttemptAt: 5000,
  deadlineAt: null,
  callbackUrl: null,
  body: "hello",
};
const NEEDED = (Object.keys(task) as (keyof typeof task)[]).filter((name) => name !== "body");
const options = { withDead: false, headers: new Map([["authorization", "Bearer x"]]) };
const read = (exported: object) => parseImportLine(JSON.stringify(exported), options);

test("keeps its id as the idempotency key and fills in masked headers", () => {
  expect(read({ task, attempts: [] })).toEqual({
    kind: "task",
    task: {
      targetUrl: task.targetUrl,
      method: "POST",
      headers: { "content-type": "text/plain", authorization: "Bearer x" },
      destination: task.destination,
      idempotent: true,
      labels: { shop: "north" },
      idempotencyKey: "t1",
      body: "hello",
      policyId: "background",
      scheduledAt: 5000,
    },
  });
});

test("skips ended tasks, and dead letters unless they are requested", () => {
  expect(read({ task: { ...task, status: "SUCCEEDED" } })).toEqual({ kind: "ended" });
  const dead = JSON.stringify({ task: { ...task, status: "EXHAUSTED" } });
  expect(parseImportLine(dead, options)).toEqual({ kind: "ended" });
  expect(parseImportLine(dead, { ...options, withDead: true })).toMatchObject({ kind: "task" });
});

describe("refuses an invalid line with a code and the field", () => {
  test.each([
    ["[]", "task must be an object, got undefined"],
    ["not json", "must be JSON"],
    [JSON.stringify({ task: { ...task, targetUrl: 5 } }), "task.targetUrl must be text, got 5"],
    [
      JSON.stringify({ task: { ...task, headers: { a: 1 } } }),
      "task.headers must be an object of texts, got another value",
    ],
    [
      JSON.stringify({ task: { ...task, nextAttemptAt: "soon" } }),
      'task.nextAttemptAt must be a whole number or null, got "soon"',
    ],
    [JSON.stringify({ task, policy: "mine" }), 'policy must be an object, got "mine"'],
  ])("%s", (line, message) => {
    expect(() => parseImportLine(line, options)).toThrow(
      expect.objectContaining({ code: "INVALID_IMPORT", message }),
    );
  });

  test.each(NEEDED)("%s is missing or has the wrong type", (name) => {
    const { [name]: _, ...rest } = task;
    for (const broken of [rest, { ...task, [name]: [1] }]) {
      const refused = thrownBy(() => read({ task: broken }));
      expect(refused.code).toBe("INVALID_IMPORT");
      expect(refused.message).toContain(`task.${name} must be`);
    }
  });
});

function thrownBy(use: () => unknown): RedriveError {
  try {
    use();
  } catch (error) {
    if (error instanceof RedriveError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}
