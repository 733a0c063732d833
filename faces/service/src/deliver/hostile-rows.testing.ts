/**
 * Hostile rows: the procedure for rows of the table of hostile targets at the deliverer: the attempt ends
 * as expected and in time, at most one request was sent, and the next request to the same host
 * succeeds. `test/hostile` runs the same rows through the whole service.
 */
import { afterAll, describe, expect, it } from "vitest";
import { AMPLE, bodyOf, brief, requestTo, SHORT, testDeliverer } from "./deliverer.testing.ts";
import { hostileServer } from "./hostile-server.testing.ts";
import type { Row } from "./hostile-table.testing.ts";

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
