/**
 * Load: builds a backlog at a paused destination and measures how fast it drains after the resume.
 */
import { BODY } from "./service-parts.mjs";

/**
 * @param {import("@redrive/service").Redrive} redrive
 * @param {string} origin
 * @param {number} count
 * @param {Readonly<Record<string, string>>} [headers]
 */
export async function fill(redrive, origin, count, headers = {}) {
  await redrive.pause(origin);
  const input = { targetUrl: `${origin}/`, body: BODY, headers };
  for (let left = count; left > 0; left -= 500) {
    const results = await redrive.enqueueMany(
      Array.from({ length: Math.min(500, left) }, () => input),
    );
    const failed = results.find((result) => result.status === "rejected");
    if (failed) throw new Error(JSON.stringify(failed));
  }
}

/**
 * @param {import("@redrive/service").Redrive} redrive
 * @param {string} origin
 * @param {number} count
 * @returns {Promise<number>} tasks a second
 */
export async function drain(redrive, origin, count) {
  let left = count;
  const done = new Promise((resolve) => {
    const stop = redrive.onEvent(({ type }) => {
      if (type !== "task.succeeded" || --left > 0) return;
      stop();
      resolve(undefined);
    });
  });
  const startMs = performance.now();
  await redrive.resume(origin);
  await done;
  return count / ((performance.now() - startMs) / 1000);
}
