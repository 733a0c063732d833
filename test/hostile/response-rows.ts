/** Response rows: the table of hostile responses, rows 1 to 37. Rows 33, 34 and 38 need names. */
import {
  FRAME_ROWS,
  GRAMMAR_ROWS,
} from "../../faces/service/src/deliver/hostile-grammar-rows.testing.ts";
import type { Behavior } from "../../faces/service/src/deliver/hostile-server.testing.ts";
import { complete, response } from "../../faces/service/src/deliver/hostile-table.testing.ts";
import {
  LENGTH_ROWS,
  TIMING_ROWS,
} from "../../faces/service/src/deliver/hostile-timing-rows.testing.ts";
import {
  fromDeliverer,
  type HostileRow,
  hostile,
  POLICIES,
  type Seen,
  SUCCEEDED,
} from "./hostile-row.ts";
import { ALLOWED } from "./world.ts";

const PERMANENT = "EXHAUSTED not-retryable";
const RETRYABLE = "EXHAUSTED attempts";

/** Sends a second text after the response, and before the next request of the service. */
const thenUnasked =
  (first: string, second: string): Behavior =>
  (socket) => {
    socket.write(first, "latin1", () => setImmediate(() => socket.write(second, "latin1")));
  };

const thenHangUp: Behavior = (socket) => {
  socket.write(response(200, "first"), "latin1", () => setImmediate(() => socket.end()));
};

const tooLate: Behavior = (socket) => {
  setTimeout(
    () => socket.write(response(200, "late"), "latin1"),
    POLICIES.short.attemptTimeoutMs + 300,
  );
};

const connections: readonly HostileRow[] = [
  hostile(
    20,
    "sends two responses to one request",
    response(200, "first") + response(200, "second"),
    `success 200, ${SUCCEEDED}`,
  ),
  hostile(
    20,
    "sends a response that nobody asked for",
    thenUnasked(response(200, "first"), response(200, "unasked")),
    `success 200, ${SUCCEEDED}`,
  ),
  hostile(35, "closes an idle connection", thenHangUp, `success 200, ${SUCCEEDED}`),
  hostile(37, "responds 200 after the deadline", tooLate, `error timeout, ${RETRYABLE}`, {
    policy: "short",
  }),
];

/** Where redirects lead: nothing may ever arrive there. */
const ELSEWHERE = `http://${ALLOWED.address}:${ALLOWED.port}`;

const redirects: readonly HostileRow[] = [
  ...[301, 302, 303, 307, 308].map((status) =>
    hostile(
      21,
      `redirects with ${status}`,
      complete(status, `location: ${ELSEWHERE}/next?token=1`),
      `status ${status}, ${PERMANENT}`,
      {
        facts: ({ attempt }) => attempt?.responseHeaders?.["location"],
        expectedFacts: `${ELSEWHERE}/next`,
      },
    ),
  ),
  hostile(
    22,
    "redirects to itself",
    (socket, { path }) => void socket.write(complete(307, `location: ${path}`)),
    `status 307, ${PERMANENT}`,
    { facts: ({ requests }) => requests.length, expectedFacts: 1 },
  ),
];

const statuses: readonly HostileRow[] = [
  ...[400, 401, 403, 404, 405, 410, 413, 422].map((status) =>
    hostile(23, `responds ${status}`, complete(status), `status ${status}, ${PERMANENT}`),
  ),
  ...[408, 425, 429, 500, 502, 503, 504].map((status) =>
    hostile(24, `responds ${status}`, complete(status), `status ${status}, ${RETRYABLE}`),
  ),
  ...[501, 505, 511].map((status) =>
    hostile(25, `responds ${status}`, complete(status), `status ${status}, ${PERMANENT}`),
  ),
  hostile(25, "responds 501, which the policy retries", complete(501), `status 501, ${RETRYABLE}`, {
    policy: "patient501",
  }),
];

const DAY_MS = 86_400_000;
const DATE = "date: Wed, 21 Oct 2026 07:28:00 GMT";

/** Where the delay comes from, and whether it is at least and at most so long. */
const delayWithin =
  (minMs: number, maxMs: number) =>
  ({ attempt }: Seen) => {
    const { delaySource, nextDelayMs } = attempt ?? {};
    const isWithin = (nextDelayMs ?? -1) >= minMs && (nextDelayMs ?? -1) <= maxMs;
    return [delaySource, isWithin ? "within" : nextDelayMs];
  };

/** A hint is a minimum, to which the policy's own delay is added at most. */
const obeyed = (row: number, text: string, hintMs: number): HostileRow =>
  hostile(
    row,
    `asks for a retry after ${JSON.stringify(text)}`,
    complete(503, DATE, `retry-after: ${text}`),
    "status 503, PENDING",
    {
      policy: "later",
      facts: delayWithin(hintMs, hintMs + DAY_MS),
      expectedFacts: ["retry-after", "within"],
    },
  );

const ignored = (row: number, ...lines: readonly string[]): HostileRow =>
  hostile(
    row,
    `sends ${JSON.stringify(lines.join(", "))}, which says nothing`,
    complete(503, DATE, ...lines),
    "status 503, PENDING",
    { policy: "later", facts: delayWithin(0, DAY_MS), expectedFacts: ["policy", "within"] },
  );

const hints: readonly HostileRow[] = [
  obeyed(26, "0", 0),
  obeyed(26, "5", 5000),
  obeyed(26, "99999999999999999999", DAY_MS),
  ...["-1", "1.5", "1e9", "0x10", "120, 30", "", "Infinity"].map((text) =>
    ignored(26, `retry-after: ${text}`),
  ),
  obeyed(27, "Wed, 21 Oct 2015 07:28:00 GMT", 0),
  obeyed(27, "Fri, 31 Dec 9999 23:59:59 GMT", DAY_MS),
  ignored(27, "retry-after: 2099-01-01"),
  ignored(27, "retry-after: tomorrow"),
  hostile(
    28,
    "sends Retry-After with 200",
    complete(200, "retry-after: 5"),
    `success 200, ${SUCCEEDED}`,
    { policy: "later" },
  ),
  ...[301, 400].map((status) =>
    hostile(
      28,
      `sends Retry-After with ${status}`,
      complete(status, "retry-after: 5"),
      `status ${status}, ${PERMANENT}`,
      { policy: "later" },
    ),
  ),
  ignored(29, "retry-after: 1", "retry-after: 2"),
];

/** What is stored of a response body, as text or as Base64. */
const storedBody = ({ attempt }: Seen) => attempt?.responseBody ?? attempt?.responseBodyBase64;
const SECRET = "Bearer very-s3cret-token";

const contents: readonly HostileRow[] = [
  hostile(30, "sets a cookie", complete(200, "set-cookie: id=1"), `success 200, ${SUCCEEDED}`, {
    facts: ({ attempt, honest }) => [
      attempt?.responseHeaders?.["set-cookie"],
      /cookie/i.test(honest?.head ?? "no request"),
    ],
    expectedFacts: ["***", false],
  }),
  ...["<script>alert(1)</script>", "\u001b[31m"].map((body) =>
    hostile(
      31,
      `sends the body ${JSON.stringify(body)}`,
      response(500, body),
      `status 500, ${RETRYABLE}`,
      { facts: storedBody, expectedFacts: body },
    ),
  ),
  hostile(
    31,
    "sends invalid UTF-8",
    response(500, "\u0000\u00ff\u00fe"),
    `status 500, ${RETRYABLE}`,
    {
      facts: storedBody,
      expectedFacts: Buffer.from([0, 0xff, 0xfe]).toString("base64"),
    },
  ),
  hostile(31, "sends a line of 1 MB", response(500, "x".repeat(1e6)), `status 500, ${RETRYABLE}`, {
    facts: (seen) => storedBody(seen)?.length,
    expectedFacts: 16_384,
  }),
  hostile(
    32,
    "echoes the Authorization header",
    (socket, { head }) => void socket.write(response(401, head), "latin1"),
    `status 401, ${PERMANENT}`,
    {
      task: { headers: { authorization: SECRET } },
      facts: (seen) => [
        storedBody(seen)?.includes("authorization: ***"),
        storedBody(seen)?.includes("s3cret"),
        seen.requests[0]?.head.includes(SECRET),
      ],
      expectedFacts: [true, false, true],
    },
  ),
];

export const RESPONSE_ROWS: readonly HostileRow[] = [
  ...[...TIMING_ROWS, ...LENGTH_ROWS, ...GRAMMAR_ROWS, ...FRAME_ROWS].map(fromDeliverer),
  ...connections,
  ...redirects,
  ...statuses,
  ...hints,
  ...contents,
];
