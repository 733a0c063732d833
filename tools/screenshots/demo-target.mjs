/**
 * Demo target: one HTTP server that plays all targets of the demo. The first part of a path names the
 * target; `rules` say how each behaves at the moment.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import { systemClock } from "../../core/dist/index.js";

/** @typedef {{ status: number, share?: number, delayMs?: number, retryAfter?: number, body?: string }} Rule */

/** A share of the requests gets `status`, the others 200. @type {Record<string, Rule>} */
export const rules = {};

/** @returns {Promise<{ url: string, close(): void }>} */
export async function startTarget() {
  let count = 0;
  const server = createServer((request, response) => {
    request.resume();
    const name = request.url?.split("/")[1] ?? "";
    const rule = rules[name] ?? { status: 200 };
    // A fixed pattern instead of chance, so that pictures hardly change.
    const isHit = (count++ * 7) % 100 < (rule.share ?? 1) * 100;
    const delayMs = (rule.delayMs ?? 2) * (0.6 + ((count * 13) % 90) / 100);
    systemClock.alarm(delayMs, () => {
      response.statusCode = isHit ? rule.status : 200;
      response.setHeader("content-type", "application/json");
      response.setHeader("x-request-id", `req-${String(count).padStart(6, "0")}`);
      if (isHit && rule.retryAfter !== undefined) {
        response.setHeader("retry-after", String(rule.retryAfter));
      }
      response.end(isHit ? (rule.body ?? '{ "ok": true }') : '{ "ok": true }');
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = /** @type {import("node:net").AddressInfo} */ (server.address());
  return {
    url: `http://127.0.0.1:${address.port}`,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
