/** Redirect rows: rows 92 to 95 of the table of forbidden targets. Redirects are never followed. */
import { complete } from "../../faces/service/src/deliver/hostile-table.testing.ts";
import { type HostileRow, hostile } from "./hostile-row.ts";

const to = (row: number, location: string): HostileRow =>
  hostile(
    row,
    `redirects to ${location}`,
    complete(302, `location: ${location}`),
    "status 302, EXHAUSTED not-retryable",
    {
      task: { headers: { "x-api-key": "s3cret-k3y" } },
      facts: ({ requests }) => requests.length,
      expectedFacts: 1,
    },
  );

export const REDIRECT_ROWS: readonly HostileRow[] = [
  to(92, "http://169.254.169.254/"),
  to(93, "http://loopback.example/"),
  to(94, "file:///etc/passwd"),
  to(95, "http://other.example/"),
];
