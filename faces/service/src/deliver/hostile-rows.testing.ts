/**
 * Rows of reliability.md 4B as data, and the one procedure they all go through: the attempt ends as
 * expected and in time, at most one request was on the wire, and the next one to the same host
 * comes out as if nothing had been.
 */
import type { Socket } from "node:net";
import { afterAll, describe, expect, it } from "vitest";
import { AMPLE, bodyOf, brief, requestTo, SHORT, testDeliverer } from "./deliverer.testing.ts";
import { type Behaviour, type HostileOptions, hostileServer } from "./hostile-server.testing.ts";

export interface Row extends RowOptions {
  readonly row: number;
  readonly does: string;
  readonly behaviour: Behaviour;
  /** As `brief` tells it. */
  readonly expected: string;
}

interface RowOptions {
  readonly server?: HostileOptions;
  /** The target never ends by itself: the deadline must. */
  readonly late?: boolean;
  readonly body?: Buffer;
}

export function row(
  number: number,
  does: string,
  behaviour: Behaviour,
  expected: string,
  options: RowOptions = {},
): Row {
  return { row: number, does, behaviour, expected, ...options };
}

export function describeRows(title: string, rows: readonly Row[]): void {
  const deliverer = testDeliverer();
  afterAll(() => deliverer.close());

  describe(title, () => {
    it.each(rows)(
      "$does (row $row)",
      async ({ behaviour, expected, server: options, late, body }) => {
        const server = await hostileServer(behaviour, options);
        const request = requestTo(server.url("/hostile"), body ? { body } : {});
        const result = await deliverer.deliver(request, late ? SHORT : AMPLE);
        expect(brief(result)).toBe(expected);
        if (late) expect(result.durationMs).toBeGreaterThanOrEqual(SHORT.attemptTimeoutMs);
        // How promptly a deadline ends an attempt is shown on a virtual clock in deadlines.test.ts.
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

/** A status line and headers, without a body's length. */
export function head(status: number | string, ...lines: readonly string[]): string {
  return [`HTTP/1.1 ${status} X`, ...lines, "", ""].join("\r\n");
}

/** A whole answer without a body. */
export function complete(status: number | string, ...lines: readonly string[]): string {
  return head(status, ...lines, "content-length: 0");
}

/** A whole answer with a body. */
export function answer(status: number, body: string, ...lines: readonly string[]): string {
  return `${head(status, ...lines, `content-length: ${Buffer.byteLength(body, "latin1")}`)}${body}`;
}

export function thenClose(text: string | Buffer): Behaviour {
  return (socket: Socket) => void socket.end(text, "latin1");
}

/** Resets once the text has left, without waiting for what is still coming in. */
export function thenReset(text: string): Behaviour {
  return (socket) =>
    void socket.write(text, "latin1", () => setImmediate(() => socket.resetAndDestroy()));
}
