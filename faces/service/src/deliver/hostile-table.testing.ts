/** Hostile table: rows of the table of hostile targets as data, and the responses that they send. */
import type { Socket } from "node:net";
import type { Behavior, HostileOptions } from "./hostile-server.testing.ts";

export interface Row extends RowOptions {
  readonly row: number;
  readonly does: string;
  readonly behavior: Behavior;
  /** In the format of `brief`. */
  readonly expected: string;
}

interface RowOptions {
  readonly server?: HostileOptions;
  /** The target never ends by itself, so the deadline must end the attempt. */
  readonly late?: boolean;
  readonly body?: Buffer;
}

export function row(
  number: number,
  does: string,
  behavior: Behavior,
  expected: string,
  options: RowOptions = {},
): Row {
  return { row: number, does, behavior, expected, ...options };
}

/** A status line and headers, without a content length. */
export function head(status: number | string, ...lines: readonly string[]): string {
  return [`HTTP/1.1 ${status} X`, ...lines, "", ""].join("\r\n");
}

/** A complete response without a body. */
export function complete(status: number | string, ...lines: readonly string[]): string {
  return head(status, ...lines, "content-length: 0");
}

/** A complete response with a body. */
export function response(status: number, body: string, ...lines: readonly string[]): string {
  return `${head(status, ...lines, `content-length: ${Buffer.byteLength(body, "latin1")}`)}${body}`;
}

export function thenClose(text: string | Buffer): Behavior {
  return (socket: Socket) => void socket.end(text, "latin1");
}

/** Resets the connection once the text is sent, without waiting for incoming data. */
export function thenReset(text: string): Behavior {
  return (socket) =>
    void socket.write(text, "latin1", () => setImmediate(() => socket.resetAndDestroy()));
}
