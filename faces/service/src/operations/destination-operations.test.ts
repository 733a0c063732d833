/** Tests that a waiting task names the limit of the service that holds it, with a real server. */
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, it } from "vitest";
import { createRedrive } from "../create-redrive.ts";
import type { Redrive } from "../redrive.ts";

const open: ServerResponse[] = [];
const server = createServer((request, response) => {
  request.resume();
  open.push(response);
});
let redrive: Redrive | undefined;

afterEach(async () => {
  for (const response of open.splice(0)) response.end();
  await redrive?.stop(0);
  server.close();
  server.closeAllConnections();
});

/** Starts a service, and an attempt that runs until the end of the test. Returns the origin. */
async function withRunningAttempt(limits: object) {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  redrive = await createRedrive({ store: "memory:", ...limits });
  const arrived = once(server, "request");
  await redrive.enqueue({ targetUrl: `${origin}/first`, destination: "one" });
  await arrived;
  return { redrive, origin };
}

it.each([
  ["the origin", { attemptsPerOrigin: 1 }, "as many attempts to http"],
  ["the node", { attemptsAtOnce: 1 }, "the node runs as many attempts as it may"],
])("a task that waits for a slot of %s says so", async (_, limits, text) => {
  const { redrive: service, origin } = await withRunningAttempt(limits);
  const { taskId } = await service.enqueue({ targetUrl: `${origin}/next`, destination: "other" });
  const task = await service.get(taskId);
  if (task === null) throw new Error("the task is gone");
  expect(task).toMatchObject({ status: "PENDING", attemptNumber: 0 });
  expect(await service.explain(task)).toContain(text);
  const succeeded = new Promise<void>((resolve) => {
    service.onEvent(
      (event) => event.type === "task.succeeded" && event.taskId === taskId && resolve(),
    );
  });
  const arrived = once(server, "request");
  open.shift()?.end();
  await arrived;
  open.shift()?.end();
  await succeeded;
  expect(await service.get(taskId)).toMatchObject({ status: "SUCCEEDED", attemptNumber: 1 });
});
