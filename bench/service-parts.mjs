/**
 * Service parts: shared by the benchmarks of the service: a sink, the raw client that they are
 * compared with, and medians.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent } from "undici";

export const BODY = Buffer.alloc(512, "x");

/** Concurrent attempts, of the service and of the raw client. */
export const IN_FLIGHT = 64;

export async function startSink() {
  const script = new URL("./service-sink.mjs", import.meta.url);
  const child = fork(script, { stdio: ["ignore", "pipe", "inherit", "ipc"] });
  const [line] = await once(/** @type {import("node:stream").Readable} */ (child.stdout), "data");
  const origin = `http://127.0.0.1:${String(line).trim()}`;
  /** Epoch ms of the next request to `/arrival`. @returns {Promise<number>} */
  const arrival = async () => (await once(child, "message"))[0];
  /** Resolves when it has received that many requests since `/received` was read. @param {number} count */
  const reaches = async (count) => {
    child.send(count);
    for (;;) {
      const [message] = await once(child, "message");
      if (message.reached === count) return;
    }
  };
  return { origin, arrival, reaches, stop: () => child.disconnect() };
}

/**
 * A bare undici pool: `count` POSTs of the same bytes to the same sink.
 * @param {string} origin
 * @param {number} count
 * @returns {Promise<number>} requests a second
 */
export async function raw(origin, count) {
  const agent = new Agent({ connections: IN_FLIGHT, pipelining: 1 });
  let left = count;
  const startMs = performance.now();
  const lane = () =>
    new Promise((resolve, reject) => {
      const next = () => {
        if (left-- <= 0) return resolve(undefined);
        agent.dispatch(
          { origin, path: "/", method: "POST", body: BODY },
          {
            onRequestStart() {},
            onResponseStart() {},
            onResponseData() {},
            onResponseEnd: next,
            onResponseError: (_controller, error) => reject(error),
          },
        );
      };
      next();
    });
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
  const seconds = (performance.now() - startMs) / 1000;
  await agent.close();
  return count / seconds;
}

/** @template T @param {(folder: string) => Promise<T>} work @returns {Promise<T>} */
export async function inFolder(work) {
  const folder = mkdtempSync(join(tmpdir(), "redrive-bench-"));
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** @param {readonly number[]} values @param {number} share */
export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}

/** Of an even number of values, the mean of the two in the middle. @param {readonly number[]} values */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const [lower = Number.NaN] = sorted.slice(Math.ceil(sorted.length / 2) - 1);
  return (lower + quantile(values, 0.5)) / 2;
}

/** @param {string} name @param {number} fallback */
export function setting(name, fallback) {
  return Number(process.env[name] ?? fallback);
}
