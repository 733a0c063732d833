/**
 * Hostile timing rows: rows 1 to 11, 36 and 37 of the table of hostile targets: targets that stay silent,
 * are slow, flood or hang up.
 */
import { gzipSync } from "node:zlib";
import { type Behavior, drip, endless, flood } from "./hostile-server.testing.ts";
import { complete, head, type Row, row, thenReset } from "./hostile-table.testing.ts";

const late = { late: true };

const dripping =
  (begin: string, text: string): Behavior =>
  (socket) => {
    socket.write(begin);
    drip(socket, endless(text), 5);
  };

const flooding =
  (begin: string): Behavior =>
  (socket) => {
    socket.write(begin);
    flood(socket, Buffer.alloc(65_536, "x"));
  };

const bomb = gzipSync(Buffer.alloc(20 << 20));
const bombed: Behavior = (socket) => {
  socket.write(head(200, "content-encoding: gzip", `content-length: ${bomb.length}`));
  socket.write(bomb);
};

const manyHeaders = Array.from({ length: 2000 }, (_, n) => `h${n}: 1`);
const chunked = "transfer-encoding: chunked";

export const TIMING_ROWS: readonly Row[] = [
  row(1, "never answers", () => {}, "error timeout", late),
  row(2, "closes at once", "", "error reset", { server: { greet: (socket) => void socket.end() } }),
  row(2, "closes after the request", (socket) => void socket.end(), "error reset"),
  row(3, "resets", (socket) => void socket.resetAndDestroy(), "error reset"),
  row(4, "drips its headers", dripping("HTTP/1.1 200 X\r\nx: ", "y"), "error timeout", late),
  row(5, "drips its body for ever", dripping(head(200), "x"), "success 200 truncated", late),
  row(5, "drips a failure's body", dripping(head(503), "x"), "status 503 truncated", late),
  row(6, "floods with 103", dripping("", head(103, "link: x")), "error timeout", late),
  row(6, "floods with 100", dripping("", head(100)), "error timeout", late),
  row(7, "sends an endless body", flooding(head(200)), "success 200 truncated"),
  row(
    7,
    "sends an endless chunk",
    flooding(`${head(500, chunked)}ffffffff\r\n`),
    "status 500 truncated",
  ),
  row(36, "answers unread megabytes, then resets", thenReset(complete(413)), "status 413", {
    server: { hasty: true },
    body: Buffer.alloc(4 << 20),
  }),
  row(
    36,
    "breaks off a failure",
    thenReset(`${head(500, "content-length: 9")}half`),
    "status 500 truncated",
  ),
];

export const LENGTH_ROWS: readonly Row[] = [
  row(8, "sends a gzip bomb", bombed, "success 200 truncated"),
  row(
    9,
    "names gzip fifty times",
    complete(200, ...new Array<string>(50).fill("content-encoding: gzip")),
    "success 200",
  ),
  row(
    10,
    "sends a header of 20 KB",
    complete(200, `x-big: ${"y".repeat(20_000)}`),
    "error protocol",
  ),
  row(10, "sends 2,000 headers", complete(200, ...manyHeaders), "success 200"),
  row(
    11,
    "names headers after prototypes",
    complete(200, "__proto__: x", "constructor: y"),
    "success 200",
  ),
];
