/**
 * Row: one line of reliability.md 4A: what is sent, and what must come back; and the ways to write
 * one down.
 */
import type { Sent, Front as WholeFront } from "./test-server.ts";

/** What a row needs to know of where it is sent. */
export type Front = Pick<WholeFront, "port" | "target">;

export interface Row {
  /** The number in reliability.md 4A. */
  readonly row: string;
  readonly what: string;
  /** What is sent: a proper request, or bytes. */
  readonly sent: (front: Front) => Sent | string | Buffer;
  readonly status: number | readonly number[];
  readonly code?: string;
  /** A field that `errors[]` must name. */
  readonly field?: string;
}

export type Change = Readonly<Record<string, unknown>>;

/** A task that would be fine, but for the change. */
export const task = (front: Front, change: Change = {}): object => ({
  targetUrl: front.target.url,
  policy: { maxAttempts: 1 },
  ...change,
});
export const changed =
  (change: Change) =>
  (front: Front): Sent => ({ body: task(front, change) });
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
export const head = (front: Front, lines: readonly string[]) =>
  ["POST /retry-tasks HTTP/1.1", `Host: 127.0.0.1:${front.port}`, ...lines, "", ""].join("\r\n");
