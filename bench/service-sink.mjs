/**
 * Sink: an HTTP server in a process of its own that answers 200 to everything, and hangs on /hang.
 * Prints its port. It is what both the raw client and the service send to.
 */
import { createServer } from "node:http";

const server = createServer((request, response) => {
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
