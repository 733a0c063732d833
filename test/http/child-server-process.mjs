/**
 * A service with its front in a process of its own, for tests that measure it or take it down.
 * Told a database file; prints its port; answers any message with its memory in bytes.
 */
import { createRedrive } from "@redrive/service";
import { createApp, listenApp } from "@redrive/service/http";

const [file = ""] = process.argv.slice(2);
const redrive = await createRedrive({ store: `sqlite:${file}` });
const url = await listenApp(createApp(redrive), { port: 0 });
process.on("message", () => {
  globalThis.gc?.();
  // What the first collection freed outside of the heap is given back in a later turn.
  setImmediate(() => {
    globalThis.gc?.();
    process.send?.(process.memoryUsage().rss);
  });
});
process.on("disconnect", () => process.exit(0));
process.send?.(Number(new URL(url).port));
