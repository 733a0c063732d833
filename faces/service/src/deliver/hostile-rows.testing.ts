/**
 * Rows of the table of hostile targets as data, and the procedure for all of them: the attempt ends
 * as expected and in time, at most one request was sent, and the next request to the same host
 * succeeds.
 */
import type { Socket } from "node:net";
import { afterAll, describe, expect, it } from "vitest";
import { AMPLE, bodyOf, brief, requestTo, SHORT, testDeliverer } from "./deliverer.testing.ts";
import { type Behavior, type HostileOptions, hostileServer } from "./hostile-server.testing.ts";

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

export function describeRows(title: string, rows: readonly Row[]): void {
  const deliverer = testDeliverer();
  afterAll(() => deliverer.close());

  describe(title, () => {
    it.each(rows)(
      "$does (row $row)",
      async ({ behavior, expected, server: options, late, body }) => {
        const server = await hostileServer(behavior, options);
        const request = requestTo(server.url("/hostile"), body ? { body } : {});
        const result = await deliverer.deliver(request, late ? SHORT : AMPLE);
        expect(brief(result)).toBe(expected);
        if (late) expect(result.durationMs).toBeGreaterThanOrEqual(SHORT.attemptTimeoutMs);
        // deadline-timer.test.ts shows on a virtual clock how promptly a deadline ends an attempt.
        expect(result.durationMs).toBeLessThan(AMPLE.attemptTimeoutMs);
        expect(bodyOf(result).length).toBeLessThanOrEqual(16_384);
        expect(server.requests.length).toBeLessThanOrEqual(1);

        if (options?.greet === undefined) {
          const next = await deliverer.deliver(requestTo(server.url("/honest")), AMPLE);
          expect([brief(next), bodyOf(next)]).toEqual(["success 200", "honest"]);
        }
        await server.close();
      },
    );
  });
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
