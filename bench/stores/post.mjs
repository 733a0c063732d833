/** Post: the HTTP request that is one job of a peer, by the same client and connections as the raw limit. */
import { Agent } from "undici";
import { BODY, IN_FLIGHT } from "../service-parts.mjs";

/** What peers store: their jobs are JSON. */
export const TEXT = BODY.toString();

/**
 * @param {string} origin
 * @returns {(job: { path: string, body: string }) => Promise<void>}
 */
export function poster(origin) {
  const agent = new Agent({ connections: IN_FLIGHT, pipelining: 1 });
  return ({ path, body }) =>
    new Promise((resolve, reject) => {
      agent.dispatch(
        { origin, path, method: "POST", body },
        {
          onRequestStart() {},
          onResponseStart() {},
          onResponseData() {},
          onResponseEnd: () => resolve(),
          onResponseError: (_controller, error) => reject(error),
        },
      );
    });
}
