/**
 * Sink: an HTTP server in a separate process that responds with 200 to everything and hangs on /hang.
 * On /arrival it tells its parent when the request arrived. /received returns how many requests came
 * since the last time, and when those to /arrival did, on the clock of the machine. When the requests
 * reach the number in the latest message of its parent, it tells the parent. Prints its port. The raw
 * client and the service both send to it.
 */
import { createServer } from "node:http";

let requests = 0;
let expected = 0;
/** @type {number[]} */
let arrivals = [];

const server = createServer((request, response) => {
  if (request.url === "/received") {
    response.end(JSON.stringify({ requests, arrivals }));
    requests = 0;
    arrivals = [];
    return;
  }
  if (request.url === "/arrival") {
    process.send?.(performance.timeOrigin + performance.now());
    arrivals.push(Number(process.hrtime.bigint()) / 1e6);
  }
  if (++requests === expected) process.send?.({ reached: expected });
  request.resume();
  if (request.url === "/hang") return;
  request.on("end", () => response.end());
});
server.keepAliveTimeout = 60_000;
server.listen(0, "127.0.0.1", () => {
  const address = server.address();
  process.stdout.write(`${typeof address === "object" ? address?.port : ""}\n`);
});
process.on("message", (count) => {
  expected = Number(count);
});
process.on("disconnect", () => process.exit(0));
