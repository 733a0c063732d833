/**
 * pg-boss as a contender: two workers that fetch 256 jobs each and continue without a pause while
 * batches are full, woken by NOTIFY. A job of a batch ends with the batch.
 */
import { load } from "./load.mjs";
import { poster, TEXT } from "./post.mjs";
import { POOL } from "./settings.mjs";

const { PgBoss } = await load("pg-boss");

const QUEUE = "posts";

/** @type {import("./contender.mjs").Open} */
export async function open({ url, origin, done }) {
  const boss = new PgBoss({ connectionString: url, max: POOL, useListenNotify: true });
  boss.on("error", (/** @type {unknown} */ error) => console.error("pg-boss", error));
  await boss.start();
  await boss.createQueue(QUEUE, { notify: true });
  const post = poster(origin);
  const options = { batchSize: 256, localConcurrency: 2, burstWhenBatchFull: true };
  return {
    add: (path) => boss.send(QUEUE, { path, body: TEXT }),
    addMany: (path, count) =>
      boss.insert(
        QUEUE,
        Array.from({ length: count }, () => ({ data: { path, body: TEXT } })),
      ),
    start: () =>
      boss.work(QUEUE, options, async (/** @type {{ data: any }[]} */ jobs) => {
        await Promise.all(jobs.map(({ data }) => post(data).then(done)));
      }),
    stop: () => boss.offWork(QUEUE),
    close: () => boss.stop(),
  };
}
