/**
 * `npm run trace`: follows one `POST /retry-tasks` from the socket to the settled row, in a built
 * clone. It prints the folders in the order in which their functions are entered, the number of
 * files, and how often the path returns to a folder that it has already left.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { createServer, request } from "node:http";
import { register } from "node:module";
import { tmpdir } from "node:os";
import { join, posix } from "node:path";
import { setImmediate } from "node:timers/promises";
import { pathToFileURL } from "node:url";

/** Folders that the others call from everywhere and that call none of them: data and arithmetic. */
const LEAVES = /\/src\/(?:model|collections|time)\//u;

const TURNS_AFTER_END = 20;

const clone = process.argv[2] ?? ".";
const built = (/** @type {string} */ path) =>
  import(new URL(`faces/service/dist/${path}`, pathToFileURL(`${clone}/`)).href);

register("./hooks.mjs", import.meta.url);
const { createRedrive } = await built("index.js");
const { createApp, listenApp } = await built("http/index.js");

const target = createServer((incoming, response) => {
  incoming.resume().on("end", () => response.end("ok"));
}).listen(0, "127.0.0.1");
await new Promise((resolve) => target.once("listening", resolve));
const { port } = /** @type {import("node:net").AddressInfo} */ (target.address());

const folder = mkdtempSync(join(tmpdir(), "redrive-trace-"));
const redrive = await createRedrive({
  store: `sqlite:${join(folder, "redrive.db")}`,
  allowTargets: "127.0.0.0/8",
});
const app = createApp(redrive);
const url = await listenApp(app, { port: 0 });

/** A first task warms up what is made once: destinations, statements, caches. */
await postAndWait();
/** @type {string[]} */
const entered = [];
Object.assign(globalThis, { redriveTrace: (/** @type {string} */ path) => entered.push(path) });
await postAndWait();
Object.assign(globalThis, { redriveTrace: undefined });
print(entered);
await app.close();
await redrive.stop();
target.close();
rmSync(folder, { recursive: true });

/** Posts a task and waits for its end. */
async function postAndWait() {
  const ended = new Promise((resolve) => {
    const stop = redrive.onEvent((/** @type {{ type: string }} */ { type }) => {
      if (type !== "task.succeeded") return;
      stop();
      resolve(undefined);
    });
  });
  const body = JSON.stringify({ targetUrl: `http://127.0.0.1:${port}/`, json: { order: 1 } });
  const headers = { "content-type": "application/json" };
  const created = await new Promise((resolve, reject) => {
    const post = request(`${url}/retry-tasks`, { method: "POST", headers }, (response) => {
      let text = "";
      response.on("data", (chunk) => {
        text += chunk;
      });
      response.on("end", () => resolve(JSON.parse(text)));
    });
    post.on("error", reject).end(body);
  });
  if (created.taskId === undefined) throw new Error(`the POST failed: ${JSON.stringify(created)}`);
  await ended;
  // The commit loop and the scheduler finish within the next turns.
  for (let turn = 0; turn < TURNS_AFTER_END; turn++) await setImmediate();
}

/** @param {readonly string[]} paths */
function print(paths) {
  const service = paths.filter((path) => !path.startsWith("core/"));
  const flow = service.filter((path) => !LEAVES.test(path));
  const folders = steps(flow, posix.dirname);
  const parts = steps(flow, (path) => path.split("/").slice(0, 4).join("/"));
  console.log(folders.join("\n"));
  console.log(`\nfiles: ${new Set(paths).size}, of the service: ${new Set(service).size}`);
  const changes = steps(paths, (path) => path).length - 1;
  console.log(`changes of file: ${changes}, function entries: ${paths.length}`);
  console.log(`returns to a folder of the service: ${returnsIn(steps(service, posix.dirname))}`);
  console.log(`returns, without model, collections and time: ${returnsIn(folders)}`);
  console.log(`returns, subfolders counted with their folder: ${returnsIn(parts)}`);
  if (process.argv[3] === "--files") console.log([...new Set(paths)].sort().join("\n"));
}

/**
 * Each change of folder.
 * @param {readonly string[]} paths
 * @param {(path: string) => string} folderOf
 */
function steps(paths, folderOf) {
  return paths.map(folderOf).filter((folder, index, all) => folder !== all[index - 1]);
}

/** @param {readonly string[]} folders */
function returnsIn(folders) {
  return folders.length - new Set(folders).size;
}
