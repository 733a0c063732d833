/**
 * Redrive as a contender, with its defaults except the concurrency of the destination: 256 attempts at
 * once, as many as a pg-boss worker fetches.
 */
import { randomUUID } from "node:crypto";
import { createRedrive } from "@redrive/service";
import { BODY } from "../service-parts.mjs";

const CONCURRENCY = 256;
/** Longer than the default: on a busy machine, a process may get no CPU time for seconds. */
const LEASE_MS = 60_000;

/** @type {import("./contender.mjs").Open} */
export async function open({ url, origin, done }) {
  const redrive = await createRedrive({ store: url, leaseMs: LEASE_MS });
  await redrive.configure(origin, { concurrency: { max: CONCURRENCY } });
  redrive.onEvent(({ type }) => {
    if (type === "task.succeeded") done();
  });
  /** @param {string} path */
  const input = (path) => ({ targetUrl: origin + path, body: BODY });
  return {
    add: (path) => redrive.enqueue(input(path)),
    async addMany(path, count) {
      const results = await redrive.enqueueMany(Array.from({ length: count }, () => input(path)));
      for (const result of results) if (result.status === "rejected") throw result.reason;
    },
    async addKeyed(path, count) {
      const keyed = () => ({ ...input(path), idempotencyKey: randomUUID() });
      await redrive.enqueueMany(Array.from({ length: count }, keyed));
    },
    start: () => redrive.resume(origin),
    stop: () => redrive.pause(origin),
    close: () => redrive.stop(),
  };
}
