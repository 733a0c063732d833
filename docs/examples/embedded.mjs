/**
 * Redrive inside a Node process. Run it, kill it with `kill -9`, run it again: every order that was
 * acknowledged is delivered, and none is lost. The command is `node docs/examples/embedded.mjs`.
 */
import { createServer } from "node:http";
import { createRedrive } from "@redrive/service";

// A target that fails a third of its calls, to have something to retry.
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

// The key makes handing over safe to repeat: after a crash in mid-call, ask again.
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

// Done when nothing is left to do; then let what runs end, and close.
for (;;) {
  const counts = await redrive.count();
  const open = counts.filter(({ status }) => status === "PENDING" || status === "IN_FLIGHT");
  if (open.length === 0) break;
  await new Promise((resolve) => setTimeout(resolve, 100));
}
await redrive.stop();
target.close();
