/** `tasks tail` against a real service: it prints events as they happen, and what holds a task. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { systemClock } from "@redrive/core";
import { createClient } from "@redrive/service/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fakeTerminal } from "../program.testing.ts";
import { type RunningService, startService } from "../serve/running-service.ts";
import { type TailFlags, tail, WaitingTasks } from "./tasks-tail.ts";

let status = 503;
const target = createServer((_, response) => response.writeHead(status).end());
let service: RunningService;
let targetUrl: string;

beforeAll(async () => {
  service = await startService({ host: "127.0.0.1", port: 0, store: "memory:" });
  await new Promise<void>((resolve) => target.listen(0, "127.0.0.1", resolve));
  targetUrl = `http://127.0.0.1:${(target.address() as AddressInfo).port}/`;
});
afterAll(async () => {
  await service.stop();
  target.closeAllConnections();
  target.close();
});

/** How requests of a tail reach the service. */
type Fetch = (url: string, init: RequestInit | undefined) => Promise<Response>;

/** A tail in the background. `until` resolves once its output has the text. */
function startTail(flags: Partial<TailFlags> = {}, reach: Fetch = globalThis.fetch) {
  let text = "";
  let check = () => {};
  const print = (more: string) => {
    text += more;
    check();
  };
  const { terminal } = fakeTerminal([], { print, printError: print });
  const stop = new AbortController();
  let onConnect = () => {};
  const connected = new Promise<void>((resolve) => {
    onConnect = resolve;
  });
  const client = createClient({
    url: service.url,
    async fetch(url, init) {
      const response = await reach(String(url), init);
      if (String(url).includes("/events?")) onConnect();
      return response;
    },
  });
  const all = { url: service.url, every: 50, ...flags };
  const done = tail(systemClock, client, terminal, all, stop);
  return {
    client,
    connected,
    until: (pattern: RegExp) =>
      new Promise<string>((resolve) => {
        check = () => {
          if (pattern.test(text)) resolve(text);
        };
        check();
      }),
    async stop() {
      stop.abort();
      await done;
      return text;
    },
  };
}

const policy = { maxAttempts: 3, initialDelayMs: 1, maxDelayMs: 1, jitterType: "NONE" } as const;

describe("tasks tail", () => {
  test("prints each attempt and the end of a task", async () => {
    const tailing = startTail();
    await tailing.connected;
    status = 503;
    const { taskId } = await tailing.client.createTask({ targetUrl, policy });
    await tailing.until(/EXHAUSTED/u);
    const text = await tailing.stop();
    // The newest tasks, which tail prints at its start, have another form.
    const isEvent = / {2}(created|attempt \d:|EXHAUSTED attempt)/u;
    const lines = text.split("\n").filter((line) => line.includes(taskId) && isEvent.test(line));
    expect(lines[0]).toMatch(/^\d\d:\d\d:\d\d {2}\S+ {2}created/u);
    expect(lines[1]).toMatch(/attempt 1: 503 in .+, next in 1 ms {2}http/u);
    expect(lines.at(-1)).toMatch(/EXHAUSTED attempt 3: 503 in .+: attempts/u);
  });

  test("says what holds a task that does not start, and how long it was held", async () => {
    await service.redrive.pause("payments");
    const tailing = startTail({ destination: "payments" });
    await tailing.connected;
    status = 200;
    await tailing.client.createTask({ targetUrl, destination: "payments" });
    const held = /held by the pause of `payments` since \d\d:\d\d:\d\d\n/u;
    expect(await tailing.until(held)).toMatch(held);
    await service.redrive.resume("payments");
    await tailing.until(/SUCCEEDED/u);
    expect(await tailing.stop()).toMatch(/attempt 1 starts, held .*[\d.]+ s pause/u);
  });

  test("continues after the service was restarted", async () => {
    const options = { host: "127.0.0.1", store: "memory:", port: 0 };
    let current = await startService(options);
    const tailing = startTail({}, (url, init) =>
      fetch(url.replace(service.url, current.url), init),
    );
    await tailing.connected;
    await current.stop();
    await tailing.until(/no response from .*: waiting/u);
    current = await startService(options);
    await tailing.until(/the service responds again/u);
    status = 200;
    const { taskId } = await tailing.client.createTask({ targetUrl });
    await tailing.until(/SUCCEEDED/u);
    expect(await tailing.stop()).toContain(taskId);
    await current.stop();
  });

  test("prints what happened while it was disconnected, once", async () => {
    const cut = new AbortController();
    let isCut = false;
    let reconnect = () => {};
    const mayReconnect = new Promise<void>((resolve) => {
      reconnect = resolve;
    });
    const tailing = startTail({ label: "n=1" }, async (url, init = {}) => {
      if (!url.includes("/events?")) return fetch(url, init);
      if (isCut) await mayReconnect;
      const signals = [cut.signal, ...(init.signal ? [init.signal] : [])];
      return fetch(url, isCut ? init : { ...init, signal: AbortSignal.any(signals) });
    });
    const labels = { n: "1" };
    status = 200;
    await tailing.connected;
    await tailing.client.createTask({ targetUrl, labels });
    await tailing.until(/SUCCEEDED/u);
    isCut = true;
    cut.abort(new TypeError("terminated"));
    const { taskId } = await tailing.client.createTask({ targetUrl, labels }, { waitSeconds: 5 });
    reconnect();
    await tailing.until(new RegExp(`${taskId} .*SUCCEEDED`, "u"));
    const lines = (await tailing.stop()).split("\n");
    expect(lines.filter((line) => line.includes("SUCCEEDED"))).toHaveLength(2);
  });

  test("waits while the service, or a proxy in front of it, refuses for a moment", async () => {
    const codes = ["SERVICE_STOPPED", "STORE_UNAVAILABLE", "TOO_MANY_REQUESTS"];
    const tailing = startTail({}, async (url, init) => {
      if (!url.includes("/events?") || codes.length === 0) return fetch(url, init);
      const problem = { status: 503, code: codes.pop(), detail: "not now" };
      return Response.json(problem, { status: 503 });
    });
    await tailing.until(/the service responds again/u);
    expect(codes).toEqual([]);
    await tailing.stop();
  });

  test("prints events as JSON lines", async () => {
    const tailing = startTail({ json: true, label: "a=1" });
    await tailing.connected;
    status = 200;
    const { taskId } = await tailing.client.createTask({ targetUrl, labels: { a: "1" } });
    await tailing.until(/task\.succeeded/u);
    const lines = (await tailing.stop()).trimEnd().split("\n");
    const types = lines.map((line) => JSON.parse(line)).filter((one) => one.taskId === taskId);
    expect(types.map(({ type }) => type).filter((type) => type !== undefined)).toEqual([
      "task.created",
      "attempt.started",
      "task.succeeded",
    ]);
  });

  test("polls if the filter needs a field that events do not have", async () => {
    const tailing = startTail({ key: "tail-1" });
    status = 200;
    await tailing.client.createTask({ targetUrl, idempotencyKey: "tail-1" });
    expect(await tailing.until(/SUCCEEDED/u)).toMatch(/SUCCEEDED {2}1 attempt/u);
    await tailing.stop();
  });
});

describe("the tasks that tail looks up", () => {
  const event = (type: string, taskId: string, waitMs: number) =>
    ({ id: "n-1", at: 5, type, taskId, nextAttemptAt: 5 + waitMs }) as const;

  test("are those that are due for a second and have not started, again every ten seconds", () => {
    const waiting = new WaitingTasks();
    waiting.record(event("attempt.failed", "a", 2000), 0);
    waiting.record(event("task.created", "b", 0), 0);
    waiting.record(event("attempt.started", "b", 0), 10);
    const found = [2999, 3000, 12_999, 13_000].map((nowMs) => waiting.overdue(nowMs, 10));
    expect(found).toEqual([[], ["a"], [], ["a"]]);
    waiting.record(event("task.succeeded", "a", 0), 13_500);
    expect(waiting.overdue(99_000, 10)).toEqual([]);
  });

  test("are at most 250", () => {
    const waiting = new WaitingTasks();
    for (let n = 0; n < 300; n++) waiting.record(event("task.created", `t${n}`, 0), 0);
    expect(waiting.overdue(5000, 1000)).toHaveLength(250);
    expect(waiting.has("t49")).toBe(false);
  });
});
