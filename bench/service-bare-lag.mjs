/**
 * Bare lag: measures what the machine can do at the moment: a minimal durable retrier under the same
 * load and against the same sink as the service. It has a timer, an fsynced row before and after the
 * call, and undici, but no guards, lanes, leases or attempts.
 */
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { Agent } from "undici";
import { BODY, IN_FLIGHT } from "./service-parts.mjs";

const now = () => performance.timeOrigin + performance.now();

/** @param {string} folder */
function openRows(folder) {
  const database = new DatabaseSync(join(folder, `bare-${Math.floor(now())}.db`));
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  database.exec("CREATE TABLE tasks (ref INTEGER PRIMARY KEY, status INTEGER, body BLOB)");
  const set = database.prepare("UPDATE tasks SET status = ? WHERE ref = ?");
  const insert = database.prepare("INSERT INTO tasks VALUES (?, 0, ?)");
  const inOne = (/** @type {() => void} */ work) => {
    database.exec("BEGIN IMMEDIATE");
    work();
    database.exec("COMMIT");
  };
  return {
    fill: (/** @type {number} */ count) =>
      inOne(() => {
        for (let ref = 0; ref < count; ref++) insert.run(ref, BODY);
      }),
    /** @param {readonly number[]} refs @param {number} status */
    write: (refs, status) =>
      inOne(() => {
        for (const ref of refs) set.run(status, ref);
      }),
    close: () => database.close(),
  };
}

/**
 * Tasks become due evenly over some seconds.
 * @param {string} folder
 * @param {string} origin
 * @param {number} perSecond
 * @param {number} seconds
 * @returns {Promise<number[]>} of each: lag and settling together
 */
export async function bareLag(folder, origin, perSecond, seconds) {
  const total = Math.floor(perSecond * seconds);
  const rows = openRows(folder);
  rows.fill(total);
  const agent = new Agent({ connections: IN_FLIGHT, pipelining: 1 });
  const firstAt = Math.floor(now()) + 50;
  const dueAt = (/** @type {number} */ ref) => Math.floor(firstAt + (ref * 1000) / perSecond);
  const lags = new Float64Array(total);
  const answeredAt = new Float64Array(total);
  /** @type {number[]} */
  const sums = [];
  /** @type {number[]} */
  let answered = [];
  let next = 0;
  await new Promise((resolve, reject) => {
    const settle = () => {
      const refs = answered;
      answered = [];
      rows.write(refs, 2);
      for (const ref of refs) sums.push((lags[ref] ?? 0) + now() - (answeredAt[ref] ?? 0));
      if (sums.length === total) resolve(undefined);
    };
    const send = (/** @type {number} */ ref) => {
      lags[ref] = now() - dueAt(ref);
      agent.dispatch(
        { origin, path: "/", method: "POST", body: BODY },
        {
          onRequestStart() {},
          onResponseStart() {},
          onResponseData() {},
          onResponseEnd() {
            answeredAt[ref] = now();
            if (answered.push(ref) === 1) setImmediate(settle);
          },
          onResponseError: (_controller, error) => reject(error),
        },
      );
    };
    const look = () => {
      /** @type {number[]} */
      const due = [];
      while (next < total && dueAt(next) <= now()) due.push(next++);
      if (due.length > 0) rows.write(due, 1);
      for (const ref of due) send(ref);
      if (next < total) setTimeout(look, Math.max(0, dueAt(next) - now()));
    };
    look();
  });
  await agent.close();
  rows.close();
  return sums;
}
