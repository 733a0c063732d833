/**
 * Example: Redrive inside a Node process. Run it with `node docs/examples/embedded.mjs`, kill it with
 * `kill -9` and run it again: every stored order is delivered, and none is lost.
 */
import { createServer } from "node:http";
import { createRedrive } from "@redrive/service";

// A target that fails a third of its calls, so there is something to retry.
let calls = 0;
const target = createServer((request, response) => {
  request.resume();
  request.on("end", () => response.writeHead(++calls % 3 === 0 ? 503 : 200).end());
});
await new Promise((resolve) => target.listen(7338, "127.0.0.1", () => resolve(undefined)));

const redrive = await createRedrive({ store: "sqlite:./.redrive/example.db" });
redrive.onEvent(({ type, taskId, reason = "" }) => {
  if (type === "task.succeeded" || type === "task.exhausted") console.log(type, taskId, reason);
});

// The key makes it safe to repeat `enqueue` after a crash during the call.
const run = process.pid;
for (let order = 1; order <= 20; order++) {
  const { taskId } = await redrive.enqueue({
    targetUrl: "http://127.0.0.1:7338/orders",
    json: { order },
    idempotencyKey: `order-${run}-${order}`,
    policy: { maxAttempts: 5, initialDelayMs: 200 },
  });
  console.log("stored", taskId);
}

// Wait until every task has ended, then stop.
for (;;) {
  const { PENDING = 0, IN_FLIGHT = 0 } = await redrive.count();
  if (PENDING + IN_FLIGHT === 0) break;
  await new Promise((resolve) => setTimeout(resolve, 100));
}
await redrive.stop();
target.close();
