/**
 * Busy server: a real HTTP server whose handler needs one of a few workers, such as the connections of a
 * database pool. Requests wait for a worker without a limit, and a request whose client is gone is
 * still executed: this is how most servers behave.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import { forNode, overloadLimiter } from "redrive/server";

/**
 * @typedef {object} BusyServer
 * @property {string} url
 * @property {number} capacity requests per second that the workers can do
 * @property {{ executed: number, wasted: number }} counts `wasted`: the client was gone
 * @property {import("redrive/server").OverloadLimiter | undefined} limiter
 * @property {() => Promise<void>} close
 */

/** Workers that each do one thing at a time, for so long. */
class Workers {
  /** @type {(() => void)[]} */
  #waiting = [];
  #free;
  #workMs;

  /** @param {number} count @param {number} workMs */
  constructor(count, workMs) {
    this.#free = count;
    this.#workMs = workMs;
  }

  async work() {
    if (this.#free === 0) await new Promise((start) => this.#waiting.push(() => start(undefined)));
    else this.#free--;
    await new Promise((done) => setTimeout(done, this.#workMs));
    const next = this.#waiting.shift();
    if (next === undefined) this.#free++;
    else next();
  }
}

/**
 * @param {{ workers: number, workMs: number, limited: boolean, onRefused?: (retryAfterMs: number) => void }} settings
 * @returns {Promise<BusyServer>}
 */
export async function startBusyServer({ workers, workMs, limited, onRefused }) {
  const pool = new Workers(workers, workMs);
  const counts = { executed: 0, wasted: 0 };
  /** @param {import("node:http").IncomingMessage} _request @param {import("node:http").ServerResponse} response */
  async function handler(_request, response) {
    await pool.work();
    counts.executed++;
    if (response.destroyed) counts.wasted++;
    response.end("done");
  }
  const limiter = limited
    ? overloadLimiter({ trust: "all", onEvent: ({ retryAfterMs }) => onRefused?.(retryAfterMs) })
    : undefined;
  const listener = limiter === undefined ? handler : forNode(limiter, handler);
  const server = createServer((request, response) => void listener(request, response));
  server.listen({ port: 0, host: "127.0.0.1", backlog: 1024 });
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the server has no port");
  return {
    url: `http://127.0.0.1:${address.port}/`,
    capacity: (workers * 1000) / workMs,
    counts,
    limiter,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
