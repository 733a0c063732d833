/** Backlog node: a node of the benchmark of backlogs, in a process of its own. */
import { createRedrive } from "@redrive/service";

const redrive = await createRedrive({
  store: process.argv[2] ?? "",
});
let leasesLost = 0;
redrive.onEvent(({ type }) => {
  if (type === "node.lease-lost") leasesLost++;
});
const tell = (/** @type {object} */ message) => process.send?.(message);
process.on("message", async (/** @type {any} */ message) => {
  if (message.asks === "leases") {
    tell({ leasesLost });
    return;
  }
  const { enqueue, targetUrl } = message;
  await redrive.enqueue({
    targetUrl,
    destination: enqueue,
    idempotencyKey: enqueue,
    scheduledAt: redrive.now() + 1,
  });
});
process.on("disconnect", async () => {
  await redrive.stop(1000);
  process.exit(0);
});
tell({ isReady: true });
