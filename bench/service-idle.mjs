/**
 * `node bench/service-idle.mjs [--against <checkout>]`: measures the time from `enqueue` to the
 * arrival of the request at the target while the service is otherwise idle, next to a bare design (one
 * fsynced row in SQLite, then undici) in the same rounds. Limits: 1.0 ms at the median and 2.5 ms at
 * the 99th percentile. With `--against`, another built checkout takes turns too.
 */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { DatabaseSync } from "@photostructure/sqlite";
import { Agent } from "undici";
import { otherCheckout } from "./against.mjs";
import { BODY, inFolder, quantile, setting, startSink } from "./service-parts.mjs";

const TASKS = setting("BENCH_IDLE", 400);
const PAUSE_MS = setting("BENCH_PAUSE_MS", 10);
/** The first tasks are a warmup and are not counted. */
const WARM = 50;
const ROOT = fileURLToPath(new URL("..", import.meta.url));

const now = () => performance.timeOrigin + performance.now();

/** @typedef {{ send: () => unknown, stop: () => Promise<void> }} Contender */

/** @param {string} root @param {string} file @param {string} targetUrl @param {boolean} keyed */
async function service(root, file, targetUrl, keyed) {
  const url = pathToFileURL(join(root, "faces/service/dist/index.js"));
  const { createRedrive } = await import(url.href);
  const redrive = await createRedrive({ store: `sqlite:${file}` });
  const send = () =>
    redrive.enqueue({
      targetUrl,
      body: BODY,
      ...(keyed ? { idempotencyKey: randomUUID() } : {}),
    });
  return { send, stop: () => redrive.stop() };
}

/** @param {string} file @param {string} origin @returns {Contender} */
function bare(file, origin) {
  const database = new DatabaseSync(file);
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  database.exec("CREATE TABLE tasks (ref INTEGER PRIMARY KEY, status INTEGER, body BLOB)");
  const insert = database.prepare("INSERT INTO tasks VALUES (NULL, 0, ?)");
  const agent = new Agent({ connections: 1, pipelining: 1 });
  const handler = {
    onRequestStart() {},
    onResponseStart() {},
    onResponseData() {},
    onResponseEnd() {},
    onResponseError() {},
  };
  return {
    send() {
      insert.run(BODY);
      agent.dispatch({ origin, path: "/arrival", method: "POST", body: BODY }, handler);
    },
    async stop() {
      await agent.close();
      database.close();
    },
  };
}

const sink = await startSink();
await inFolder(async (folder) => {
  const targetUrl = `${sink.origin}/arrival`;
  const other = otherCheckout();
  /** @type {Record<string, Contender>} */
  const contenders = {
    bare: bare(join(folder, "bare.db"), sink.origin),
    ours: await service(ROOT, join(folder, "ours.db"), targetUrl, false),
    "ours, with keys": await service(ROOT, join(folder, "keys.db"), targetUrl, true),
  };
  if (other !== undefined) {
    contenders["before"] = await service(other, join(folder, "before.db"), targetUrl, false);
    contenders["before, with keys"] = await service(other, join(folder, "bk.db"), targetUrl, true);
  }
  /** @type {Record<string, number[]>} */
  const times = Object.fromEntries(Object.keys(contenders).map((name) => [name, []]));
  for (let n = 0; n < TASKS + WARM; n++) {
    for (const [name, { send }] of Object.entries(contenders)) {
      await wait(PAUSE_MS);
      const arrived = sink.arrival();
      const startAt = now();
      await send();
      const ms = (await arrived) - startAt;
      if (n >= WARM) times[name]?.push(ms);
    }
  }
  for (const [name, values] of Object.entries(times)) {
    const at = (/** @type {number} */ share) => Number(quantile(values, share).toFixed(3));
    const bar = name.startsWith("ours") ? { bar: "1.0 and 2.5 ms" } : {};
    console.log(
      JSON.stringify({
        bench: `idle, ${name}`,
        p10: at(0.1),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        ...bar,
      }),
    );
  }
  for (const { stop } of Object.values(contenders)) await stop();
});
sink.stop();
