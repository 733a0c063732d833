/** Tests of the log lines of tasks: one per attempt, one per end, and nothing that a caller sent. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { virtualClock } from "@redrive/core";
import { RepeatedLines } from "@redrive/service/http";
import { expect, test } from "vitest";
import { eventLine } from "../terminal/event-text.ts";
import { plainPaint } from "../terminal/terminal.ts";
import { startService } from "./running-service.ts";
import { logEvent, logTaskEvent } from "./serve.ts";

test("the line of a task that ended without an attempt counts none", () => {
  const lines: Record<string, unknown>[] = [];
  const info = (fields: Record<string, unknown>) => lines.push(fields);
  const ended = { reason: "held", by: "concurrency", attemptNumber: 0 } as const;
  const task = { tenantId: "default", taskId: "task-1", destination: "slow", policyId: "quick" };
  const event = { type: "task.exhausted", id: "node-1", at: 1000, ...task, ...ended } as const;
  logTaskEvent({ log: { info } } as never, event);
  expect(lines).toEqual([{ event: "task.exhausted", ...task, ...ended }]);
});

test("a task has a line per attempt and a line for its end, without its payload", async () => {
  const statuses = [503, 200];
  const target = createServer((_, response) => response.writeHead(statuses.shift() ?? 200).end());
  await new Promise<void>((resolve) => target.listen(0, "127.0.0.1", resolve));
  const { port } = target.address() as AddressInfo;
  const service = await startService({ host: "127.0.0.1", port: 0, store: "memory:" });
  const lines: { readonly fields: Record<string, unknown>; readonly text: string }[] = [];
  const printed: string[] = [];
  const info = (fields: Record<string, unknown>, text: string) => lines.push({ fields, text });
  const ended = new Promise<void>((resolve) => {
    service.redrive.onEvent((event) => {
      logTaskEvent({ log: { info } } as never, event);
      printed.push(eventLine(event, { paint: plainPaint }) ?? "");
      if (event.type === "task.succeeded") resolve();
    });
  });
  const policy = { initialDelayMs: 1, maxDelayMs: 1, jitterType: "NONE" } as const;
  const { taskId } = await service.redrive.enqueue({
    targetUrl: `http://127.0.0.1:${port}/canary-path?canary=1`,
    headers: { "x-canary": "canary-header" },
    body: "canary-body",
    labels: { canary: "canary-label" },
    destination: "shop",
    policy,
  });
  await ended;
  await service.stop();
  target.close();

  expect(lines.map(({ fields }) => fields["event"])).toEqual([
    "attempt",
    "attempt",
    "task.succeeded",
  ]);
  for (const { fields } of lines) expect(fields).toMatchObject({ taskId, destination: "shop" });
  expect(lines[0]?.fields).toMatchObject({
    attemptNumber: 1,
    responseStatus: 503,
    delaySource: "policy",
    nextDelayMs: expect.any(Number),
    nextAttemptAt: expect.any(Number),
  });
  expect(lines[0]?.text).toMatch(/^attempt 1: 503 in /u);
  expect(lines[2]?.fields).toMatchObject({ reason: "succeeded", attemptNumber: 2 });
  expect(lines[2]?.text).toMatch(/^SUCCEEDED attempt 2: 200 in /u);
  expect(JSON.stringify(lines) + printed.join("")).not.toContain("canary");
  expect(printed.join("")).toMatch(/attempt 1: 503 in .*, next in .* {2}shop\n/u);
});

test("an outage of the store has one line per minute, with the number of its events", async () => {
  const lines: unknown[] = [];
  const error = (fields: { times?: number }, text: string) => lines.push([text, fields.times ?? 1]);
  const info = (_: object, text: string) => lines.push([text, 1]);
  const clock = virtualClock();
  const repeated = new RepeatedLines(clock);
  const emit = (type: "store.failed" | "store.recovered") =>
    logEvent({ log: { error, info } } as never, { type, id: "n-1", at: 1 }, repeated);
  for (let n = 0; n < 500; n++) emit("store.failed");
  await clock.advance(60_000);
  emit("store.failed");
  emit("store.recovered");
  const failed = "the store failed";
  expect(lines).toEqual([
    [failed, 1],
    [failed, 500],
    ["the store responds again", 1],
  ]);
});
