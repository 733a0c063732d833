/** Tests of the complete service: real store, real clock, real sockets. */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { virtualClock } from "@redrive/core";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { createRedrive } from "./create-redrive.ts";
import type { EngineEvent } from "./engine/events.ts";
import type { RetryTask } from "./model/task.ts";
import type { Redrive } from "./redrive.ts";

const folder = mkdtempSync(join(tmpdir(), "redrive-embedded-"));
const requests: { readonly request: IncomingMessage; readonly body: string }[] = [];
let statuses: number[] = [];
const sink = createServer((request, response) => {
  let body = "";
  request.on("data", (chunk) => {
    body += chunk;
  });
  request.on("end", () => {
    requests.push({ request, body });
    const status = statuses.shift() ?? 200;
    const isRedirect = status >= 300 && status <= 399;
    const headers = isRedirect ? { location: `${url}/again?token=secret` } : {};
    response.writeHead(status, headers).end("thanks");
  });
});
let url = "";
let redrive: Redrive;

beforeAll(async () => {
  sink.listen(0, "127.0.0.1");
  await once(sink, "listening");
  url = `http://127.0.0.1:${(sink.address() as AddressInfo).port}/hook`;
});
afterEach(async () => {
  await redrive.stop();
  requests.length = 0;
  statuses = [];
});
afterAll(() => {
  sink.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Resolves with the event that ends the task. */
function ended(taskId: string): Promise<EngineEvent> {
  return new Promise((resolve) => {
    const stop = redrive.onEvent((event) => {
      if (event.taskId !== taskId || !/^task\.(succ|exh|canc)/.test(event.type)) return;
      stop();
      resolve(event);
    });
  });
}

const quick = { maxAttempts: 3, initialDelayMs: 1, maxDelayMs: 2 };

describe("an embedded Redrive", () => {
  it("delivers a task and sends its retries with the same key", async () => {
    redrive = await createRedrive({ store: `sqlite:${join(folder, "a.db")}` });
    statuses = [503, 500];
    const { taskId } = await redrive.enqueue({ targetUrl: url, json: { n: 1 }, policy: quick });
    const { type } = await ended(taskId);
    expect(type).toBe("task.succeeded");
    expect(requests.map(({ body }) => body)).toEqual(['{"n":1}', '{"n":1}', '{"n":1}']);
    const keys = new Set(requests.map(({ request }) => request.headers["idempotency-key"]));
    expect([...keys]).toEqual([taskId]);
    const { attempts } = await redrive.attempts(taskId);
    expect(attempts.map(({ responseStatus }) => responseStatus)).toEqual([503, 500, 200]);
    expect(await redrive.get(taskId)).toMatchObject({ status: "SUCCEEDED", attemptNumber: 3 });
  });

  it("returns the same task for the same key, and rejects the key for another payload", async () => {
    redrive = await createRedrive({ store: "memory:" });
    const input = { targetUrl: url, body: "a", idempotencyKey: "order-1" };
    const first = await redrive.enqueue(input);
    const all = await Promise.all(Array.from({ length: 20 }, () => redrive.enqueue(input)));
    expect(new Set(all.map(({ taskId }) => taskId))).toEqual(new Set([first.taskId]));
    expect(all.every(({ replayed }) => replayed)).toBe(true);
    const other = redrive.enqueue({ ...input, body: "b" });
    await expect(other).rejects.toMatchObject({ code: "IDEMPOTENCY_CONFLICT" });
  });

  it("creates a dead letter, and redrives it once with its key", async () => {
    redrive = await createRedrive({ store: `sqlite:${join(folder, "b.db")}` });
    statuses = [400];
    const { taskId } = await redrive.enqueue({ targetUrl: url, policy: quick });
    expect(await ended(taskId)).toMatchObject({ type: "task.exhausted", reason: "not-retryable" });
    expect(await redrive.redrive()).toEqual({ redriven: 1, skipped: 0, skips: [] });
    const redrivenTo = (await redrive.get(taskId))?.redrivenTo ?? "";
    expect((await redrive.get(redrivenTo))?.redrivenFrom).toBe(taskId);
    const skips = [{ reason: "redriven", count: 1, detail: expect.anything(), taskIds: [taskId] }];
    expect(await redrive.redrive()).toEqual({ redriven: 0, skipped: 1, skips });
    await redrive.stop();
    expect(requests.map(({ request }) => request.headers["idempotency-key"])).toEqual([
      taskId,
      taskId,
    ]);
  });

  it("redrives with the key from the task's own header", async () => {
    redrive = await createRedrive({ store: "memory:", encryptionKey: "ab".repeat(32) });
    statuses = [400];
    const headers = { "Idempotency-Key": "order-9" };
    const { taskId } = await redrive.enqueue({ targetUrl: url, headers, policy: quick });
    await ended(taskId);
    await redrive.redrive();
    await redrive.stop();
    const keys = requests.map(({ request }) => request.headers["idempotency-key"]);
    expect(keys).toEqual(["order-9", "order-9"]);
  });

  it("sends the headers of a Headers and a Map", async () => {
    redrive = await createRedrive({ store: "memory:" });
    const pairs: [string, string][] = [["Authorization", "Bearer a"]];
    for (const headers of [new Headers(pairs), new Map(pairs), pairs]) {
      const { taskId } = await redrive.enqueue({ targetUrl: url, headers });
      await ended(taskId);
    }
    const sent = requests.map(({ request }) => request.headers.authorization);
    expect(sent).toEqual(["Bearer a", "Bearer a", "Bearer a"]);
  });

  it("ends a task at once after a 410, and continues with the other tasks of the destination", async () => {
    redrive = await createRedrive({ store: "memory:" });
    statuses = new Array(30).fill(410);
    for (let n = 0; n < 30; n++) {
      const { taskId } = await redrive.enqueue({ targetUrl: url, policy: quick });
      expect(await ended(taskId)).toMatchObject({ reason: "not-retryable", attemptNumber: 1 });
    }
    expect(requests).toHaveLength(30);
    const { taskId } = await redrive.enqueue({ targetUrl: url, policy: quick });
    expect((await ended(taskId)).type).toBe("task.succeeded");
    // One URL that is gone says nothing about the rest of its origin.
    const health = { name: new URL(url).origin, pausedAt: null, breakerState: "CLOSED" };
    expect((await redrive.health()).destinations).toEqual([expect.objectContaining(health)]);
  });

  it("follows no redirect, also when the policy repeats the call and the target loops", async () => {
    redrive = await createRedrive({ store: "memory:" });
    statuses = [307, 308, 308, 308];
    const once = await redrive.enqueue({ targetUrl: url, policy: quick });
    expect(await ended(once.taskId)).toMatchObject({ reason: "not-retryable", attemptNumber: 1 });
    const policy = { ...quick, retryableStatusCodes: [308] };
    const { taskId } = await redrive.enqueue({ targetUrl: url, policy });
    expect(await ended(taskId)).toMatchObject({ reason: "attempts", attemptNumber: 3 });
    expect(requests.map(({ request }) => request.url)).toEqual(new Array(4).fill("/hook"));
    const { attempts } = await redrive.attempts(taskId);
    expect(attempts.map(({ responseHeaders }) => responseHeaders?.["location"])).toEqual(
      new Array(3).fill(`${url}/again`),
    );
  });

  it("pauses, cancels and rejects unknown tasks", async () => {
    redrive = await createRedrive({ store: "memory:" });
    await redrive.pause(new URL(url).origin);
    const { taskId } = await redrive.enqueue({ targetUrl: url });
    expect(await redrive.cancel(taskId)).toEqual({ status: "CANCELLED", cancelRequestedAt: null });
    await expect(redrive.retryNow(taskId)).rejects.toMatchObject({ code: "TASK_STATE_CONFLICT" });
    await expect(redrive.cancel("nothing")).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
    expect(requests).toEqual([]);
  });

  it("reports no due instant once the last waiting task is canceled", async () => {
    redrive = await createRedrive({ store: "memory:" });
    const scheduledAt = redrive.now() + 60_000;
    const { taskId } = await redrive.enqueue({ targetUrl: url, scheduledAt });
    expect((await redrive.health()).destinations).toMatchObject([
      { backlog: 1, nextDueAt: scheduledAt },
    ]);
    await redrive.cancel(taskId);
    expect((await redrive.health()).destinations).toMatchObject([{ backlog: 0, nextDueAt: null }]);
  });

  it.each(["memory:", `sqlite:${join(folder, "ids.db")}`])(
    "rejects ids that are not strings, without blaming the store %s",
    async (store) => {
      redrive = await createRedrive({ store });
      for (const id of [undefined, null, 17, {}, ["a"]] as unknown as string[]) {
        const calls = [
          redrive.get(id),
          redrive.attempts(id),
          redrive.cancel(id),
          redrive.retryNow(id),
          redrive.redriveTask(id),
          redrive.discard([id]),
          redrive.pause(id),
        ];
        for (const result of await Promise.allSettled(calls)) {
          const code = expect.stringMatching(/^INVALID_(ARGUMENT|DESTINATION)$/);
          expect(result).toMatchObject({ status: "rejected", reason: { code } });
        }
      }
      await expect(redrive.get(17 as unknown as string)).rejects.toThrow(
        "taskId must be a string, got 17",
      );
      await expect(redrive.get("a", 5 as unknown as string)).rejects.toThrow(
        "tenantId must be a string, got 5",
      );
      expect(await redrive.get("nothing")).toBeNull();
    },
  );

  it("explains that the time of a task in a paused destination is over, and ends it on resume", async () => {
    const clock = virtualClock(1_800_000_000_000);
    redrive = await createRedrive({ store: "memory:", clock });
    const { origin } = new URL(url);
    const enqueue = async (fields: object) => {
      const enqueued = redrive.enqueue({ targetUrl: url, ...fields });
      await clock.advance(1);
      return enqueued;
    };
    await redrive.pause(origin);
    const byBudget = await enqueue({ policy: { ...quick, totalBudgetMs: 60_000 } });
    const byDeadline = await enqueue({ deadlineAt: clock.now() + 30_000 });
    const look = async ({ taskId }: { taskId: string }) => {
      const task = (await redrive.get(taskId)) as RetryTask;
      return { task, explain: await redrive.explain(task) };
    };
    await clock.advance(30_000);
    expect((await look(byBudget)).explain).toMatch(/^Attempt 1 waits: .* is paused/);
    expect((await look(byDeadline)).explain).toMatch(/^Its time is over: .* is paused until/);
    await clock.advance(30_000);
    expect((await look(byBudget)).explain).toMatch(/^Its time is over: .* is paused until/);
    expect((await look(byBudget)).task.status).toBe("PENDING");
    const resumed = redrive.resume(origin);
    await clock.advance(1000);
    await resumed;
    const ended = { status: "EXHAUSTED", reason: "held", attemptNumber: 0 };
    for (const one of [byBudget, byDeadline]) {
      const { task, explain } = await look(one);
      expect(task).toMatchObject(ended);
      expect(explain).toBe("It ended after 0 attempts: held by a pause until its time was over.");
    }
    expect(requests).toEqual([]);
    await clock.run(redrive.stop());
  });

  it("waits for running attempts however often stop is called", async () => {
    redrive = await createRedrive({ store: `sqlite:${join(folder, "twice.db")}` });
    const slow = createServer().listen(0, "127.0.0.1");
    await once(slow, "listening");
    const targetUrl = `http://127.0.0.1:${(slow.address() as AddressInfo).port}/`;
    const arrived = once(slow, "request");
    const { taskId } = await redrive.enqueue({ targetUrl });
    const [, response] = await arrived;
    const end = ended(taskId);
    const stopping = Promise.all([redrive.stop(), redrive.stop()]);
    response.end("done");
    expect((await end).type).toBe("task.succeeded");
    await stopping;
    slow.close();
  });

  it("stops and reports the error although a redrive cannot be saved", async () => {
    const file = join(folder, "jobs.db");
    redrive = await createRedrive({ store: `sqlite:${file}` });
    const broken = new Error("no document could be written");
    Object.assign(redrive.jobs, { stop: () => Promise.reject(broken) });
    await expect(redrive.stop()).rejects.toBe(broken);
    expect(redrive.isRunning()).toBe(false);
    // The file is released.
    redrive = await createRedrive({ store: `sqlite:${file}` });
    await redrive.stop();
  });

  it("rejects invalid options and quotes them", async () => {
    redrive = await createRedrive({ store: "memory:" });
    const refuse = (input: object) => redrive.enqueue({ targetUrl: url, ...input });
    await expect(refuse({ policyId: "nope" })).rejects.toMatchObject({ code: "UNKNOWN_POLICY" });
    await expect(refuse({ metod: "PUT" })).rejects.toThrow(/did you mean "method"/);
    await expect(refuse({ method: "FETCH" })).rejects.toThrow(/got "FETCH"/);
    await expect(refuse({ targetUrl: "http://10.0.0.1/" })).rejects.toMatchObject({
      code: "TARGET_DENIED",
    });
    await expect(refuse({ body: "x", json: 1 })).rejects.toThrow(/only one of/);
    await expect(createRedrive({ store: "mysql://x" })).rejects.toThrow(
      /sqlite:PATH, .* or memory:/,
    );
  });
});

describe("a stopped service", () => {
  const stores = { memory: "memory:", SQLite: `sqlite:${join(folder, "stopped.db")}` };

  it.each(Object.entries(stores))("says so to every later call, on %s", async (_name, store) => {
    redrive = await createRedrive({ store });
    const task = { targetUrl: url, body: "late" };
    await redrive.stop();
    const refusal = { code: "SERVICE_STOPPED" };
    await expect(redrive.enqueue(task)).rejects.toMatchObject(refusal);
    await expect(redrive.enqueue({ ...task, idempotencyKey: "k" })).rejects.toMatchObject(refusal);
    await expect(redrive.pause("payments")).rejects.toMatchObject(refusal);
    await expect(redrive.get("some-task")).rejects.toMatchObject(refusal);
    const [one] = await redrive.enqueueMany([task]);
    expect(one).toMatchObject({ status: "rejected", reason: refusal });
  });
});
