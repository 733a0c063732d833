/** Tests of the trace of a task: one trace id, and a span per attempt. */
import { afterEach, expect, test } from "vitest";
import { endings, openTestServer, type TestServer } from "./test-server.ts";

let server: TestServer | undefined;
afterEach(() => server?.close());

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const policy = { maxAttempts: 2, initialDelayMs: 1, maxDelayMs: 1 };

/** Two attempts of one task; what the target received. */
async function attempts(headers: Record<string, string>, own: Record<string, string> = {}) {
  server = await openTestServer();
  const { call, target, redrive } = server;
  target.statuses = [503];
  const done = endings(redrive, 1);
  const body = { targetUrl: target.url, policy, headers: own };
  const { json } = await call({ headers, body });
  await done;
  const traces = target.received.map(({ headers: sent }) => String(sent["traceparent"]).split("-"));
  const requestIds = target.received.map(({ headers: sent }) => sent["x-request-id"]);
  return { taskId: json.taskId as string, traces, requestIds };
}

const idsOf = (traces: readonly string[][]) => traces.map(([, id]) => id);
const spansOf = (traces: readonly string[][]) => new Set(traces.map(([, , span]) => span));

test("the attempts continue the trace of the POST, each with a span of its own", async () => {
  const span = "00f067aa0ba902b7";
  const { traces } = await attempts({ traceparent: `00-${TRACE}-${span}-01` });
  expect(idsOf(traces)).toEqual([TRACE, TRACE]);
  expect(spansOf(traces).size).toBe(2);
  expect(spansOf(traces)).not.toContain(span);
});

test("without one, the trace id is the task's id, and so is the request id", async () => {
  const { taskId, traces, requestIds } = await attempts({});
  const id = taskId.replaceAll("-", "");
  expect(idsOf(traces)).toEqual([id, id]);
  expect(requestIds).toEqual([taskId, taskId]);
});

test("an invalid trace is ignored, and the task's own headers win", async () => {
  const invalid = await attempts({ traceparent: "00-zz-1-01" });
  expect(idsOf(invalid.traces)[0]).toBe(invalid.taskId.replaceAll("-", ""));
  await server?.close();
  const other = "a".repeat(32);
  const own = { traceparent: `00-${other}-${"b".repeat(16)}-00`, "X-Request-Id": "mine" };
  const { traces, requestIds } = await attempts(
    { traceparent: `00-${TRACE}-${"c".repeat(16)}-01` },
    own,
  );
  expect(idsOf(traces)).toEqual([other, other]);
  expect(requestIds).toEqual(["mine", "mine"]);
});
