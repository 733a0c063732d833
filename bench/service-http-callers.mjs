/**
 * Callers: 64 connections in a separate process that POST tasks one at a time and wait for each
 * response. Gets the request and the count over IPC and replies with the time it took.
 */
import { Pool } from "undici";

const CALLERS = 64;

/** @param {{ url: string, body: string, count: number }} order */
async function run({ url, body, count }) {
  const pool = new Pool(url, { connections: CALLERS, pipelining: 1 });
  const headers = { "content-type": "application/json" };
  let left = count;
  let refused = 0;
  const caller = () =>
    new Promise((resolve, reject) => {
      const next = () => {
        if (left-- <= 0) return resolve(undefined);
        pool.dispatch(
          { path: "/retry-tasks", method: "POST", headers, body },
          {
            onRequestStart() {},
            onResponseStart(_controller, status) {
              if (status !== 202) refused++;
            },
            onResponseData() {},
            onResponseEnd: next,
            onResponseError: (_controller, error) => reject(error),
          },
        );
      };
      next();
    });
  const startMs = performance.now();
  await Promise.all(Array.from({ length: CALLERS }, caller));
  const seconds = (performance.now() - startMs) / 1000;
  await pool.close();
  return { seconds, refused };
}

process.on("message", (order) => {
  run(/** @type {{ url: string, body: string, count: number }} */ (order)).then(
    (result) => process.send?.(result),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
});
process.on("disconnect", () => process.exit(0));
