/** Task rows: the rows of the table of bad requests about the fields of a task. */
import { changed, type Row, refused, task, text } from "./row.ts";

const urls: readonly Row[] = [
  ["14", "missing", undefined],
  ["15", "a number", 5],
  ["16", "of 10 KB", `http://example.com/${"x".repeat(10_240)}`],
  ["17", "relative", "/x"],
  ["17", "without a scheme", "//h/x"],
  ["18", "with a tab and a newline", "http://loc\tal\nhost/"],
  ["18", "with NUL", "http://example.com/\0"],
  ["19", "with a user", "http://u:p@example.com/"],
  ["21", "with port 0", "http://example.com:0/"],
  ["21", "with port 65536", "http://example.com:65536/"],
  ["21", "with port 99999", "http://example.com:99999/"],
].map(([row, what, targetUrl]) =>
  refused(String(row), `a URL ${what}`, { targetUrl }, "targetUrl"),
);

const methods: readonly Row[] = ["get", "M-SEARCH", "CONNECT", "TRACE", "", "GET\r\nX: y"].map(
  (method) => refused("22", `method ${JSON.stringify(method)}`, { method }, "method"),
);

const headerRows: readonly Row[] = [
  ...["a\rb", "a\nb", "a\0b", "\u20ac"].map((value) =>
    refused(
      "24-27",
      `header value ${JSON.stringify(value)}`,
      { headers: { "x-a": value } },
      "headers.x-a",
    ),
  ),
  ...["", "a b", "a:b", "a\r\nb", "x".repeat(1024)].map((name) =>
    refused("28", `header name ${JSON.stringify(name.slice(0, 9))}`, { headers: { [name]: "v" } }),
  ),
  ...[
    "connection",
    "Keep-Alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "proxy-authorization",
    "expect",
  ].map((name) => refused("29", `header ${name}`, { headers: { [name]: "v" } }, `headers.${name}`)),
  ...["host", "Content-Length"].map((name) =>
    refused("30", `header ${name}`, { headers: { [name]: "1" } }, `headers.${name}`),
  ),
  ...["Redrive-Attempt", "webhook-id", "webhook-timestamp", "webhook-signature"].map((name) =>
    refused("31", `header ${name}`, { headers: { [name]: "1" } }, `headers.${name}`),
  ),
  refused(
    "32",
    "101 headers",
    { headers: Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`x-${n}`, "v"])) },
    "headers",
  ),
  refused("32", "a list of headers", { headers: [["x-a", "1"]] }, "headers"),
  refused("32", "17 KiB of headers", { headers: { a: "x".repeat(17_000) } }, "headers"),
  refused("32", "a name in two cases", { headers: { "X-A": "1", "x-a": "2" } }, "headers.x-a"),
];

const bodies: readonly Row[] = [
  refused("23", "GET with a body", { method: "GET", body: "x" }, "body"),
  refused("23", "HEAD with a body", { method: "HEAD", json: 1 }, "body"),
  refused("33", "a body that is an object", { body: { a: 1 } }, "body"),
  refused("33", "no Base64", { bodyBase64: "a$b" }, "bodyBase64"),
  refused("33", "half of Base64", { bodyBase64: "YQ" }, "bodyBase64"),
  refused("33", "two bodies", { body: "a", json: 1 }, "body"),
  refused("34", "half a character", { body: "\ud800" }, "body"),
  {
    row: "33",
    what: "a body over 64 KiB without a blob store",
    sent: changed({ body: "x".repeat(65_537) }),
    status: 413,
    code: "BODY_TOO_LARGE",
  },
];

const policies: readonly Row[] = [
  ...[0, -1, 1.5, "3", 1e9].map((maxAttempts) =>
    refused(
      "36-39",
      `maxAttempts ${JSON.stringify(maxAttempts)}`,
      { policy: { maxAttempts } },
      "policy.maxAttempts",
    ),
  ),
  {
    row: "36-39",
    what: "maxAttempts NaN",
    sent: text('{"policy":{"maxAttempts":NaN}}'),
    status: 400,
  },
  {
    row: "36-39",
    what: "maxAttempts 1e400",
    sent: (server) => ({
      body: `{"targetUrl":"${server.target.url}","policy":{"maxAttempts":1e400}}`,
    }),
    status: 400,
  },
  refused("40", "initial above max", { policy: { initialDelayMs: 2000, maxDelayMs: 1000 } }),
  ...[0, -1, 1e308].map((multiplier) =>
    refused("40", `multiplier ${multiplier}`, { policy: { multiplier } }, "policy.multiplier"),
  ),
  refused(
    "40",
    "jitter above 1",
    { policy: { jitterType: "PROPORTIONAL", jitterRatio: 1.1 } },
    "policy.jitterRatio",
  ),
  refused("41", "delay 1e15", { policy: { initialDelayMs: 1e15 } }, "policy.initialDelayMs"),
  refused(
    "41",
    "over 365 days",
    { policy: { totalBudgetMs: 366 * 86_400_000 } },
    "policy.totalBudgetMs",
  ),
  ...[0, 1, 3_600_000].map((attemptTimeoutMs) =>
    refused(
      "41",
      `timeout ${attemptTimeoutMs}`,
      { policy: { attemptTimeoutMs } },
      "policy.attemptTimeoutMs",
    ),
  ),
  ...[253_370_764_800_000, "2024-02-30", "2024-02-03T00:00:00"].map((scheduledAt) =>
    refused("42", `scheduledAt ${scheduledAt}`, { scheduledAt }, "scheduledAt"),
  ),
  refused("43", "a regular expression", { policy: { retryOn: "(a+)+$" } }, "policy.retryOn"),
];

const names: readonly Row[] = [
  refused("45", "a label of the service", { labels: { "redrive.callback": "x" } }, "labels"),
  refused("45", "a label that is reserved", { labels: { "redrive.x": "x" } }, "labels"),
  ...[".", ".."].map((destination) =>
    refused("46", `destination ${destination}`, { destination }, "destination"),
  ),
];

const keys: readonly Row[] = [
  ...["", "x".repeat(256), "a\u0007b", "a b", "\u00e9"].map((idempotencyKey) =>
    refused(
      "47",
      `key ${JSON.stringify(idempotencyKey.slice(0, 9))}`,
      { idempotencyKey },
      "idempotencyKey",
    ),
  ),
  {
    row: "47",
    what: "an empty key header",
    sent: (server) => ({ body: task(server), headers: { "idempotency-key": "" } }),
    status: 400,
  },
  {
    row: "47",
    what: "two key headers",
    sent: (server) => ({ body: task(server), headers: { "idempotency-key": ["a", "b"] } }),
    status: 400,
  },
  {
    row: "47",
    what: "a header that differs from the field",
    sent: (server) => ({
      body: task(server, { idempotencyKey: "a" }),
      headers: { "idempotency-key": "b" },
    }),
    status: 400,
  },
  refused("49", "a key in NFD", { idempotencyKey: "e\u0301" }, "idempotencyKey"),
];

export const TASK_ROWS: readonly Row[] = [
  ...urls,
  ...methods,
  ...headerRows,
  ...bodies,
  ...policies,
  ...names,
  ...keys,
];
