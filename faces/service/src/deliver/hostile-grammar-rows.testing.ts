/**
 * Hostile grammar rows: rows 12 to 19 of the table of hostile targets: responses that are not valid HTTP,
 * or barely.
 */
import { randomBytes } from "node:crypto";
import { complete, head, type Row, row, thenClose } from "./hostile-table.testing.ts";

const ILLEGAL_STATUSES = ["000", "099", "1000", "2xx", "-200", "20", ""];
const TLS_ALERT = Buffer.from("15030300020228", "hex");
const chunked = "transfer-encoding: chunked";

export const GRAMMAR_ROWS: readonly Row[] = [
  row(12, "speaks HTTP/0.9", thenClose("<html>hello</html>"), "error protocol"),
  row(
    13,
    "sends garbage",
    thenClose(Buffer.concat([Buffer.of(0), randomBytes(999)])),
    "error protocol",
  ),
  row(14, "speaks TLS on a plain port", TLS_ALERT, "error protocol"),
  ...ILLEGAL_STATUSES.map((status) =>
    row(15, `answers status "${status}"`, thenClose(complete(status)), "error protocol"),
  ),
  row(
    15,
    "speaks HTTP/9.9",
    thenClose("HTTP/9.9 200 OK\r\ncontent-length: 0\r\n\r\n"),
    "error protocol",
  ),
  row(16, "answers 999", complete(999), "status 999"),
  row(16, "answers 600", complete(600), "status 600"),
  row(16, "answers 299", complete(299), "success 299"),
  row(
    17,
    "switches protocols unasked",
    head(101, "upgrade: x", "connection: upgrade"),
    "error protocol",
  ),
];

export const FRAME_ROWS: readonly Row[] = [
  row(18, "sends a body with 204", `${head(204)}surplus`, "success 204"),
  row(
    18,
    "sends more than it said",
    `${head(200, "content-length: 2")}ok${head(200)}`,
    "success 200",
  ),
  row(
    18,
    "sends less than it said",
    thenClose(`${head(200, "content-length: 9")}half`),
    "error 200 reset truncated",
  ),
  row(
    18,
    "sends less than it said and closes as announced",
    thenClose(`${head(200, "content-length: 9", "connection: close")}half`),
    "error 200 protocol truncated",
  ),
  row(
    18,
    "breaks off a chunk",
    thenClose(`${head(200, chunked)}5\r\nhel`),
    "error 200 reset truncated",
  ),
  row(18, "says two lengths", complete(200, "content-length: 5"), "error protocol"),
  row(18, "says a length and chunks", `${complete(200, chunked)}0\r\n\r\n`, "error protocol"),
  row(18, "says length -1", head(200, "content-length: -1"), "error protocol"),
  row(18, "says length 2^64", head(200, "content-length: 18446744073709551616"), "error protocol"),
  row(19, "sends a bad chunk", `${head(200, chunked)}zz\r\n`, "error 200 protocol truncated"),
  row(
    19,
    "overflows a chunk",
    `${head(200, chunked)}${"f".repeat(17)}\r\n`,
    "error 200 protocol truncated",
  ),
  row(19, "sends NUL in a header", complete(200, "x-a: \u0000"), "error protocol"),
  row(19, "folds a header", complete(200, "x-a: 1", " 2"), "error protocol"),
  row(19, "sends a space before the colon", complete(200, "x-a : 1"), "error protocol"),
];
