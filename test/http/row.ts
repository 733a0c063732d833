/**
 * Row: one row of the table of bad requests: what is sent and what must be returned, and helpers to
 * write rows.
 */
import type { Sent, TestServer } from "./test-server.ts";

/** What a row needs to know about the server. */
export type RowServer = Pick<TestServer, "port" | "target">;

export interface Row {
  /** The number of the row in the table of bad requests. */
  readonly row: string;
  readonly what: string;
  /** What is sent: a valid HTTP request, or bytes. */
  readonly sent: (server: RowServer) => Sent | string | Buffer;
  readonly status: number | readonly number[];
  readonly code?: string;
  /** A field that `errors[]` must name. */
  readonly field?: string;
}

export type Change = Readonly<Record<string, unknown>>;

/** A task that is valid except for the change. */
export const task = (server: RowServer, change: Change = {}): object => ({
  targetUrl: server.target.url,
  policy: { maxAttempts: 1 },
  ...change,
});
export const changed =
  (change: Change) =>
  (server: RowServer): Sent => ({ body: task(server, change) });
export const text =
  (body: string | Buffer, headers: Sent["headers"] = {}) =>
  (): Sent => ({ body, headers });
export const get =
  (path: string, headers: Sent["headers"] = {}) =>
  (): Sent => ({ method: "GET", path, headers });
export const refused = (row: string, what: string, change: Change, field?: string): Row => ({
  row,
  what,
  sent: changed(change),
  status: 400,
  ...(field !== undefined && { field }),
});
export const head = (server: RowServer, lines: readonly string[]) =>
  ["POST /retry-tasks HTTP/1.1", `Host: 127.0.0.1:${server.port}`, ...lines, "", ""].join("\r\n");
