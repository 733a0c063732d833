/**
 * Sink: an HTTP server in a separate process that responds with 200 to everything and hangs on /hang.
 * On /arrival it tells its parent when the request arrived. Prints its port. The raw client and the
 * service both send to it.
 */
import { createServer } from "node:http";

const server = createServer((request, response) => {
  if (request.url === "/arrival") process.send?.(performance.timeOrigin + performance.now());
  request.resume();
  if (request.url === "/hang") return;
  request.on("end", () => response.end());
});
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  process.stdout.write(`${typeof address === "object" ? address?.port : ""}\n`);
});
process.on("disconnect", () => process.exit(0));
