/**
 * graphile-worker as a contender, with the settings of its page about performance: a local queue of 500
 * and completions in batches without a delay.
 */

import { load } from "./load.mjs";
import { poster, TEXT } from "./post.mjs";
import { IN_FLIGHT, POOL } from "./settings.mjs";

const { makeWorkerUtils, run } = await load("graphile-worker");
const { Logger } = await load("@graphile/logger");

/** @type {import("./contender.mjs").Open} */
export async function open({ url, origin, done }) {
  const logger = new Logger(() => (/** @type {string} */ level, /** @type {string} */ message) => {
    if (level === "error") console.error("graphile-worker", message);
  });
  const preset = {
    worker: {
      connectionString: url,
      maxPoolSize: POOL,
      concurrentJobs: IN_FLIGHT,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
      logger,
    },
  };
  const utils = await makeWorkerUtils({ preset });
  await utils.migrate();
  const post = poster(origin);
  const taskList = {
    /** @param {any} job */
    async post(job) {
      await post(job);
      done();
    },
  };
  /** @type {{ stop(): Promise<void> } | undefined} */
  let runner;
  return {
    add: (path) => utils.addJob("post", { path, body: TEXT }),
    addMany: (path, count) =>
      utils.addJobs(
        Array.from({ length: count }, () => ({
          identifier: "post",
          payload: { path, body: TEXT },
        })),
      ),
    async start() {
      runner = await run({ preset, taskList, noHandleSignals: true });
    },
    async stop() {
      await runner?.stop();
      runner = undefined;
    },
    async close() {
      await runner?.stop();
      await utils.release();
    },
  };
}
