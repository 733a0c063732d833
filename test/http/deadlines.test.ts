/** Tests of tasks with little time, and of what the target learns about it, with a real service. */
import { afterEach, expect, test } from "vitest";
import { endings, openTestServer, type TestServer } from "./test-server.ts";

let server: TestServer | undefined;
afterEach(async () => {
  await server?.close();
});

test("thirty tasks that a tenant gives too little time do not open the breaker of a target that needs more", async () => {
  server = await openTestServer();
  const { call, target, redrive } = server;
  const release = target.hold();
  const done = endings(redrive, 30);
  const deadlineAt = Date.now() + 2000; // a busy machine needs a while for thirty requests
  const body = { targetUrl: target.url, destination: "payments", deadlineAt };
  const answers = await Promise.all(Array.from({ length: 30 }, () => call({ body })));
  expect(answers.map(({ status }) => status)).toEqual(Array(30).fill(202));
  await done;
  release();
  const { json } = await call({ method: "GET", path: "/destinations/payments" });
  expect(json.breakerState).toBe("CLOSED");
  const paid = endings(redrive, 1);
  const { json: task } = await call({ body: { targetUrl: target.url, destination: "payments" } });
  await paid;
  const ended = await call({ method: "GET", path: `/retry-tasks/${task.taskId}` });
  expect(ended.json.status).toBe("SUCCEEDED");
});

test("a target learns how long the service waits for its response", async () => {
  server = await openTestServer();
  const { call, target, redrive } = server;
  const done = endings(redrive, 1);
  await call({ body: { targetUrl: target.url, policy: { attemptTimeoutMs: 7000 } } });
  await done;
  expect(target.received[0]?.headers["redrive-remaining-ms"]).toBe("7000");
});
