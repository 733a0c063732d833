/**
 * Rows: the table of bad requests: what is sent and what must be returned. Cases that need several
 * requests, another clock or a key are in the test files next to it; each names its row.
 */
import { get, head, type Row, refused, task, text } from "./row.ts";
import { TASK_ROWS } from "./task-rows.ts";

const plain: readonly Row[] = [
  { row: "1", what: "an empty body", sent: text(""), status: 400, code: "INVALID_REQUEST" },
  { row: "2", what: "half of JSON", sent: text("{"), status: 400, code: "INVALID_REQUEST" },
  { row: "3", what: "a list", sent: text("[]"), status: 400 },
  { row: "4", what: "null", sent: text("null"), status: 400 },
  { row: "5", what: "text/plain", sent: text("{}", { "content-type": "text/plain" }), status: 415 },
  {
    row: "5",
    what: "a form",
    sent: text("a=1", { "content-type": "application/x-www-form-urlencoded" }),
    status: 415,
  },
  {
    row: "5",
    what: "no content type",
    sent: (server) => `${head(server, ["Content-Length: 2"])}{}`,
    status: 415,
  },
  { row: "6", what: "a byte order mark", sent: text("\ufeff{}"), status: 400 },
  { row: "6", what: "UTF-16", sent: text(Buffer.from("{}", "utf16le")), status: 400 },
  {
    row: "6",
    what: "invalid UTF-8",
    sent: text(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d])),
    status: 400,
  },
  {
    row: "7",
    what: "100 000 deep",
    sent: text(`{"json":${"[".repeat(1e5)}${"]".repeat(1e5)}}`),
    status: 400,
  },
  {
    row: "8",
    what: "100 000 keys",
    sent: text(`{${Array.from({ length: 1e5 }, (_, n) => `"${n.toString(36)}":1`).join()}}`),
    status: 400,
  },
  {
    row: "8",
    what: "100 000 keys in json",
    sent: text(
      `{"json":{${Array.from({ length: 1e5 }, (_, n) => `"${n.toString(36)}":1`).join()}}}`,
    ),
    status: 400,
  },
  {
    row: "8",
    what: "a million elements",
    sent: text(`{"json":[${"1,".repeat(1e6)}1]}`),
    status: 413,
  },
  {
    row: "9",
    what: "an envelope over 1 MiB",
    sent: text(`{"body":"${"x".repeat(1 << 20)}"}`),
    status: 413,
    code: "BODY_TOO_LARGE",
  },
  {
    row: "9",
    what: "an announced envelope over 1 MiB",
    sent: (server) => head(server, ["Content-Type: application/json", "Content-Length: 99999999"]),
    status: 413,
  },
  {
    row: "10",
    what: "gzip",
    sent: text(Buffer.alloc(200, 0x1f), { "content-encoding": "gzip" }),
    status: 415,
  },
  { row: "12", what: "__proto__", sent: text('{"__proto__":{"polluted":1}}'), status: 400 },
  {
    row: "12",
    what: "__proto__ in headers",
    sent: text('{"headers":{"__proto__":{"polluted":1}}}'),
    status: 400,
  },
  {
    row: "12",
    what: "__proto__ in json",
    sent: text('{"json":[{"__proto__":{"polluted":1}}]}'),
    status: 400,
  },
  {
    row: "12",
    what: "__proto__ with an escape",
    sent: text('{"\\u005f_proto__":{"polluted":1}}'),
    status: 400,
  },
  {
    row: "12",
    what: "constructor.prototype",
    sent: text('{"constructor":{"prototype":{"polluted":1}}}'),
    status: 400,
  },
  refused("13", "an unknown field", { metod: "PUT" }, "metod"),
  refused(
    "13",
    "an unknown field in the policy",
    { policy: { maxAttemts: 3 } },
    "policy.maxAttemts",
  ),
];

const quoted = encodeURIComponent("' OR 1=1--");
const lookups: readonly Row[] = [
  { row: "50", what: "SQL as an id", sent: get(`/retry-tasks/${quoted}`), status: 404 },
  { row: "50", what: "NUL as an id", sent: get("/retry-tasks/%00"), status: 404 },
  { row: "50", what: "SQL as a status", sent: get(`/retry-tasks?status=${quoted}`), status: 400 },
  {
    row: "50",
    what: "SQL as a number",
    sent: get(`/retry-tasks?lastStatus=${quoted}`),
    status: 400,
  },
  { row: "50", what: "SQL as a label", sent: get(`/retry-tasks?label=${quoted}`), status: 400 },
  {
    row: "51",
    what: "an unknown id",
    sent: get("/retry-tasks/00000000-0000-7000-8000-000000000000"),
    status: 404,
    code: "TASK_NOT_FOUND",
  },
  { row: "51", what: "a malformed id", sent: get("/retry-tasks/nothing"), status: 404 },
  {
    row: "51",
    what: "an id of 10 KB",
    sent: get(`/retry-tasks/${"x".repeat(10_240)}`),
    status: 404,
  },
  {
    row: "51",
    what: "a path upward",
    sent: get("/retry-tasks/%2e%2e%2f%2e%2e%2fetc"),
    status: 404,
  },
  { row: "51", what: "a broken escape", sent: get("/retry-tasks/%zz"), status: [400, 404] },
  ...["0", "-1", "1e9", "x", "", "251"].map(
    (limit): Row => ({
      row: "52",
      what: `limit ${JSON.stringify(limit)}`,
      sent: get(`/retry-tasks?limit=${limit}`),
      status: 400,
      field: "limit",
    }),
  ),
  { row: "52", what: "two limits", sent: get("/retry-tasks?limit=1&limit=2"), status: 400 },
  {
    row: "52",
    what: "a forged cursor",
    sent: get("/retry-tasks?cursor=MDE5"),
    status: 400,
    field: "cursor",
  },
  {
    row: "52",
    what: "an unknown filter",
    sent: get("/retry-tasks?stauts=PENDING"),
    status: 400,
    field: "stauts",
  },
  { row: "53", what: "HEAD", sent: () => ({ method: "HEAD", path: "/healthz" }), status: 200 },
  { row: "53", what: "OPTIONS", sent: () => ({ method: "OPTIONS" }), status: 405 },
  { row: "53", what: "an unknown path", sent: get("/nothing"), status: 404, code: "NOT_FOUND" },
  { row: "53", what: "a wrong method", sent: () => ({ method: "PATCH" }), status: 405 },
  { row: "53", what: "TRACE", sent: () => ({ method: "TRACE" }), status: 405 },
  {
    row: "64",
    what: "pause of an unknown destination",
    sent: () => ({ path: "/destinations/nothing/pause" }),
    status: 404,
  },
  {
    row: "64",
    what: "resume of an unknown destination",
    sent: () => ({ path: "/destinations/nothing/resume" }),
    status: 404,
  },
];

const foreign: readonly Row[] = [
  {
    row: "56",
    what: "a foreign Host",
    sent: get("/retry-tasks", { host: "evil.example" }),
    status: 421,
  },
  {
    row: "56",
    what: "a name that begins like ours",
    sent: get("/retry-tasks", { host: "localhost.evil.example" }),
    status: 421,
  },
  {
    row: "57",
    what: "a foreign Origin",
    sent: (server) => ({ body: task(server), headers: { origin: "https://evil.example" } }),
    status: 403,
  },
  {
    row: "57",
    what: "Origin null",
    sent: (server) => ({ body: task(server), headers: { origin: "null" } }),
    status: 403,
  },
  {
    row: "57",
    what: "a cross-site page",
    sent: (server) => ({ body: task(server), headers: { "sec-fetch-site": "cross-site" } }),
    status: 403,
  },
  {
    row: "59",
    what: "two lengths",
    sent: (server) =>
      `${head(server, ["Content-Type: application/json", "Content-Length: 2", "Content-Length: 3"])}{}`,
    status: 400,
  },
  {
    row: "59",
    what: "length and chunks",
    sent: (server) =>
      `${head(server, ["Content-Type: application/json", "Content-Length: 2", "Transfer-Encoding: chunked"])}0\r\n\r\n`,
    status: 400,
  },
  {
    row: "59",
    what: "a folded header",
    sent: (server) => head(server, ["X-A: 1", " folded"]),
    status: 400,
  },
  {
    row: "59",
    what: "bare line feeds",
    sent: (server) => `GET /healthz HTTP/1.1\nHost: 127.0.0.1:${server.port}\n\n`,
    status: 400,
  },
  { row: "59", what: "no HTTP", sent: () => "hello\r\n\r\n", status: 400 },
  {
    row: "59",
    what: "an unknown method",
    sent: (server) => `FOO / HTTP/1.1\r\nHost: 127.0.0.1:${server.port}\r\n\r\n`,
    status: 400,
  },
];

const batches: readonly Row[] = [
  {
    row: "63",
    what: "a batch that is no list",
    sent: () => ({ path: "/retry-tasks/batch", body: "{}" }),
    status: 400,
  },
  {
    row: "63",
    what: "an empty batch",
    sent: () => ({ path: "/retry-tasks/batch", body: "[]" }),
    status: 400,
  },
  {
    row: "63",
    what: "a batch with something behind it",
    sent: () => ({ path: "/retry-tasks/batch", body: "[{}] x" }),
    status: 400,
  },
  {
    row: "63",
    what: "half a batch",
    sent: () => ({ path: "/retry-tasks/batch", body: "[{}" }),
    status: 400,
  },
  {
    row: "63",
    what: "1001 tasks",
    sent: () => ({ path: "/retry-tasks/batch", body: `[${Array(1001).fill("{}").join()}]` }),
    status: 400,
  },
  {
    row: "63",
    what: "a batch over 16 MiB",
    sent: () => ({ path: "/retry-tasks/batch", body: `["${"x".repeat(1 << 24)}"]` }),
    status: 413,
  },
  {
    row: "13",
    what: "an unknown field of a redrive",
    sent: () => ({ path: "/redrives", body: { filtr: {} } }),
    status: 400,
    field: "filtr",
  },
  {
    row: "13",
    what: "a redrive of nothing",
    sent: () => ({ path: "/redrives", body: {} }),
    status: 400,
  },
  { row: "13", what: "a redrive without a body", sent: () => ({ path: "/redrives" }), status: 400 },
  {
    row: "13",
    what: "a policy that is a list",
    sent: () => ({ path: "/retry-policies", body: "[]" }),
    status: 400,
  },
  {
    row: "13",
    what: "a policy without a body",
    sent: () => ({ path: "/retry-policies" }),
    status: 400,
  },
  {
    row: "13",
    what: "a destination with a bad guard",
    sent: () => ({ method: "PUT", path: "/destinations/a", body: { breaker: { failureRate: 7 } } }),
    status: 400,
    field: "breaker.failureRate",
  },
  {
    row: "13",
    what: "a destination that is null",
    sent: () => ({ method: "PUT", path: "/destinations/a", body: "null" }),
    status: 400,
  },
];

export const ROWS: readonly Row[] = [...plain, ...TASK_ROWS, ...lookups, ...foreign, ...batches];
