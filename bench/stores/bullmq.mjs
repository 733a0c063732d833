/** BullMQ as a contender, on Redis or on PostgreSQL: concurrency 64, and ended jobs are removed. */
import { load } from "./load.mjs";
import { poster, TEXT } from "./post.mjs";
import { IN_FLIGHT, POOL } from "./settings.mjs";

const { createPostgresBackend, createRedisBackend, Queue, Worker } = await load("bullmq");

const QUEUE = "posts";
const OPTIONS = { removeOnComplete: true, removeOnFail: true };

/** @type {import("./contender.mjs").Open} */
export async function open({ url, origin, done }) {
  const isPostgres = url.startsWith("postgres");
  const backend = isPostgres ? createPostgresBackend : createRedisBackend;
  const connection = /** @type {any} */ (
    isPostgres ? { connectionString: url, max: POOL, migrate: true } : connectionOf(url)
  );
  const queue = new Queue(QUEUE, { connection, defaultJobOptions: OPTIONS }, backend);
  await queue.waitUntilReady();
  const post = poster(origin);
  const work = async (/** @type {{ data: any }} */ job) => {
    await post(job.data);
    done();
  };
  const worker = new Worker(
    QUEUE,
    work,
    { connection, concurrency: IN_FLIGHT, autorun: false },
    backend,
  );
  worker.on("error", (/** @type {unknown} */ error) => console.error("bullmq", error));
  await worker.waitUntilReady();
  return {
    add: (path) => queue.add("post", { path, body: TEXT }),
    addMany: (path, count) =>
      queue.addBulk(
        Array.from({ length: count }, () => ({ name: "post", data: { path, body: TEXT } })),
      ),
    // It begins to run when it is resumed.
    start: async () => worker.resume(),
    stop: () => worker.pause(),
    async close() {
      await worker.close();
      await queue.close();
    },
  };
}

/** @param {string} url */
function connectionOf(url) {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port), maxRetriesPerRequest: null };
}
