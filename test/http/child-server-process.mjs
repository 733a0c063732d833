/**
 * A service with its HTTP server in a separate process, for tests that measure or kill it. It takes
 * a database file, sends its port, and responds to `delay` with the longest time for which it could not
 * run, in milliseconds, and to any other message with its memory in bytes.
 */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { createRedrive } from "@redrive/service";
import { createApp, listenApp } from "@redrive/service/http";

const [file = ""] = process.argv.slice(2);
const redrive = await createRedrive({ store: `sqlite:${file}` });
const url = await listenApp(createApp(redrive), { port: 0 });
const delay = monitorEventLoopDelay({ resolution: 5 });
delay.enable();
process.on("message", (message) => {
  if (message === "delay") {
    process.send?.(delay.max / 1e6);
    return;
  }
  globalThis.gc?.();
  // Memory that the first collection freed outside of the heap is returned in a later tick.
  setImmediate(() => {
    globalThis.gc?.();
    process.send?.(process.memoryUsage().rss);
  });
});
process.on("disconnect", () => process.exit(0));
process.send?.(Number(new URL(url).port));
