/**
 * `npm run trace -- PATH`: follows one path through the built packages and prints the files in the order
 * in which their functions are entered, and the counts that `test/size` limits. Paths: `post` (one POST, from
 * the socket to the settled row, on SQLite), `claim URL` (one due task on PostgreSQL, until its attempt
 * starts), `retry` and `destination` (one call of the library that succeeds). `--functions` prints how often
 * each function is entered instead.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { createServer, request } from "node:http";
import { register } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** Timers and exchanges that happen meanwhile add entries, so the shortest of these runs counts. */
const RUNS = 9;
/** When nothing was entered for this time, the path has ended. */
const QUIET_MS = 60;
const DUE_IN_MS = 400;

/** @typedef {{ path: string, name: string }} Entry */

const PATHS = {
  post: tracePost,
  claim: traceClaim,
  retry: traceRetry,
  destination: traceDestination,
};

const built = (/** @type {string} */ path) =>
  import(new URL(`../../${path}`, import.meta.url).href);

register("./hooks.mjs", import.meta.url);
const [name = "post", ...rest] = process.argv.slice(2);
const trace = PATHS[/** @type {keyof typeof PATHS} */ (name)];
if (trace === undefined) {
  console.error(`the path must be one of ${Object.keys(PATHS).join(", ")}, got ${name}`);
  process.exit(2);
}
const entries = await trace(rest.find((arg) => !arg.startsWith("-")) ?? "");
if (rest.includes("--functions")) printFunctions(entries);
else printFiles(entries);

/**
 * Records what is entered from now until nothing is any more.
 * @param {() => Promise<unknown>} run
 */
async function record(run) {
  /** @type {Entry[]} */
  const entered = [];
  const trace = (/** @type {string} */ path, /** @type {string} */ name) =>
    entered.push({ path, name });
  Object.assign(globalThis, { redriveTrace: trace });
  await run();
  stopRecording();
  return entered;
}

function stopRecording() {
  Object.assign(globalThis, { redriveTrace: undefined });
}

/**
 * The shortest of several runs, after one that makes what is made once: destinations, statements, caches.
 * @param {() => Promise<readonly Entry[]>} run
 */
async function shortest(run) {
  await run();
  const runs = [];
  for (let n = 0; n < RUNS; n++) runs.push(await run());
  // On a busy machine, a path may have ended before it was recorded.
  const recorded = runs.filter(({ length }) => length > 0);
  return recorded.reduce((best, one) => (one.length < best.length ? one : best));
}

async function tracePost() {
  return await withService(undefined, async ({ redrive, url, target }) => {
    return await shortest(async () => {
      const ended = nextEvent(redrive, "task.succeeded");
      const entered = await record(async () => {
        await post(`${url}/retry-tasks`, { targetUrl: target, json: { order: 1 } });
        await ended;
        await sleep(QUIET_MS);
      });
      return entered;
    });
  });
}

/**
 * Until the attempt starts: what follows is the same on every store.
 * @param {string} store a PostgreSQL URL
 */
async function traceClaim(store) {
  return await withService(store, async ({ redrive, target }) => {
    return await shortest(async () => {
      const ended = nextEvent(redrive, "task.succeeded");
      const started = nextEvent(redrive, "attempt.started", stopRecording);
      const scheduledAt = redrive.now() + DUE_IN_MS;
      await redrive.enqueue({ targetUrl: target, scheduledAt });
      await sleep(DUE_IN_MS / 2);
      const entered = await record(() => started);
      await ended;
      await sleep(QUIET_MS);
      return entered;
    });
  });
}

async function traceRetry() {
  const { retry } = await built("faces/library/dist/index.js");
  return await shortest(() => record(() => retry(async () => 1)));
}

async function traceDestination() {
  const { destination } = await built("faces/library/dist/index.js");
  const called = destination("traced", { concurrency: { max: 10 }, rate: { perSecond: 1000 } });
  return await shortest(() => record(() => called.run(async () => 1)));
}

/**
 * @template T
 * @param {string | undefined} store default: SQLite in a new folder
 * @param {(service: { redrive: any, url: string, target: string }) => Promise<T>} use
 */
async function withService(store, use) {
  const { createRedrive } = await built("faces/service/dist/index.js");
  const { createApp, listenApp } = await built("faces/service/dist/http/index.js");
  const folder = mkdtempSync(join(tmpdir(), "redrive-trace-"));
  const server = createServer((incoming, response) => {
    incoming.resume().on("end", () => response.end("ok"));
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  const redrive = await createRedrive({
    store: store ?? `sqlite:${join(folder, "redrive.db")}`,
    allowTargets: "127.0.0.0/8",
  });
  const app = createApp(redrive);
  const url = await listenApp(app, { port: 0 });
  try {
    return await use({ redrive, url, target: `http://127.0.0.1:${port}/` });
  } finally {
    await app.close();
    await redrive.stop();
    server.close();
    server.closeAllConnections();
    rmSync(folder, { recursive: true });
  }
}

/**
 * @param {any} redrive
 * @param {string} wanted
 * @param {() => void} [seen] called at once
 */
function nextEvent(redrive, wanted, seen) {
  return new Promise((resolve) => {
    const stop = redrive.onEvent((/** @type {{ type: string }} */ { type }) => {
      if (type !== wanted) return;
      seen?.();
      stop();
      resolve(undefined);
    });
  });
}

/**
 * @param {string} url
 * @param {unknown} task
 */
async function post(url, task) {
  const headers = { "content-type": "application/json" };
  const created = await new Promise((resolve, reject) => {
    const sent = request(url, { method: "POST", headers }, (response) => {
      let text = "";
      response.on("data", (chunk) => {
        text += chunk;
      });
      response.on("end", () => resolve(JSON.parse(text)));
    });
    sent.on("error", reject).end(JSON.stringify(task));
  });
  if (created.taskId === undefined) throw new Error(`the POST failed: ${JSON.stringify(created)}`);
}

/** @param {readonly Entry[]} entries */
function printFiles(entries) {
  const files = entries.map(({ path }) => path);
  const visits = files.filter((file, index) => file !== files[index - 1]);
  console.log(visits.join("\n"));
  console.log(
    `\nfiles: ${new Set(files).size}, changes of file: ${visits.length - 1}, function entries: ${files.length}`,
  );
}

/** @param {readonly Entry[]} entries */
function printFunctions(entries) {
  const counts = new Map();
  for (const { path, name } of entries) {
    const key = `${path}  ${name}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  const sorted = [...counts].toSorted(([, one], [, other]) => other - one);
  for (const [key, count] of sorted) console.log(`${String(count).padStart(5)} ${key}`);
}
