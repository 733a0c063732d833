/**
 * `node bench/service-slow-targets.mjs`: measures how slow targets affect a healthy one. Sixty targets
 * hang, drip, flood or send endless bodies. The time from creation to success of the tasks of another
 * target may grow by at most 10 % at the median. Rounds with and without slow targets take turns.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { join } from "node:path";
import { createRedrive } from "@redrive/service";
import { BODY, inFolder, median, setting, startSink } from "./service-parts.mjs";

const ROUNDS = setting("BENCH_ROUNDS", 15);
const TASKS = setting("BENCH_TASKS", 300);
const TARGETS = 60;
const MAX_GROWTH = 1.1;
const POLICY = { maxAttempts: 1, attemptTimeoutMs: 2000, totalBudgetMs: 600_000 };
const KINDS = ["hang", "drip-head", "drip-body", "drip-103", "flood-103", "endless"];

if (process.argv[2] === "targets") serveSlowTargets();
else await compare();

/** In a process of its own: one port; the path says what it does. */
function serveSlowTargets() {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", (data) => act(socket, String(data).split(" ")[1]?.slice(1) ?? ""));
  });
  server.listen(0, "127.0.0.1", () => {
    const address = server.address();
    process.send?.(typeof address === "object" ? address?.port : 0);
  });
  process.on("disconnect", () => process.exit(0));
}

/** @param {import("node:net").Socket} socket @param {string} kind */
function act(socket, kind) {
  const [does = "", what = ""] = kind.split("-");
  const informational = "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n";
  if (what === "head") socket.write("HTTP/1.1 200 OK\r\nx: ");
  if (what === "body" || does === "endless") socket.write("HTTP/1.1 200 OK\r\n\r\n");
  const part = what === "103" ? informational : "x";
  if (does === "drip") {
    const timer = setInterval(() => socket.write(part), 50);
    socket.on("close", () => clearInterval(timer));
  } else if (does !== "hang") {
    const chunk = part.repeat(Math.ceil(65_536 / part.length));
    const pump = () => {
      while (!socket.destroyed && socket.write(chunk));
    };
    socket.on("drain", pump);
    pump();
  }
}

async function compare() {
  const sink = await startSink();
  const child = fork(new URL(import.meta.url), ["targets"]);
  const [port] = await once(child, "message");
  await inFolder(async (folder) => {
    const redrive = await createRedrive({ store: `sqlite:${join(folder, "slow.db")}` });
    await times(redrive, `${sink.origin}/`);
    /** @type {number[]} */
    const growths = [];
    for (let round = 1; round <= ROUNDS; round++) {
      const alone = () => times(redrive, `${sink.origin}/`);
      const beside = () => besideSlow(redrive, `http://127.0.0.1:${port}`, alone);
      const first = round % 2 === 0 ? await alone() : 0;
      const slow = await beside();
      const growth = slow / (first || (await alone()));
      growths.push(growth);
      console.log(
        `round ${round}: p50 ${slow.toFixed(2)} ms beside slow targets, growth ${growth.toFixed(3)}`,
      );
    }
    const growth = median(growths);
    console.log(JSON.stringify({ bench: "slow targets", growth, bar: MAX_GROWTH }));
    if (growth > MAX_GROWTH) process.exitCode = 1;
    await redrive.stop(0);
  });
  sink.stop();
  child.disconnect();
}

/**
 * Keeps one attempt of each slow target running while `measured` runs, then lets them end.
 * @param {import("@redrive/service").Redrive} redrive
 * @param {string} origin
 * @param {() => Promise<number>} measured
 */
async function besideSlow(redrive, origin, measured) {
  const running = new Set();
  let isOver = false;
  let ended = () => {};
  const create = async (/** @type {number} */ n) => {
    const targetUrl = `${origin}/${KINDS[n % KINDS.length]}`;
    const { taskId } = await redrive.enqueue({
      targetUrl,
      destination: `slow-${n}`,
      policy: POLICY,
    });
    running.add(taskId);
    numbers.set(taskId, n);
  };
  /** @type {Map<string, number>} */
  const numbers = new Map();
  const stop = redrive.onEvent(({ type, taskId = "" }) => {
    if (!/^task\.(succeeded|exhausted)$/.test(type) || !running.delete(taskId)) return;
    const n = numbers.get(taskId) ?? 0;
    // A flood ends at once; its next attempt comes after a second, as a retry would.
    if (!isOver) setTimeout(() => !isOver && void create(n), 1000);
    if (running.size === 0) ended();
  });
  for (let n = 0; n < TARGETS; n++) await create(n);
  const took = await measured();
  isOver = true;
  if (running.size > 0) await new Promise((resolve) => (ended = () => resolve(undefined)));
  stop();
  return took;
}

/** @param {import("@redrive/service").Redrive} redrive @param {string} targetUrl the median, in ms */
async function times(redrive, targetUrl) {
  /** @type {number[]} */
  const tookMs = [];
  for (let n = 0; n < TASKS; n++) {
    const startMs = performance.now();
    await new Promise((resolve) => {
      let created = "";
      /** @type {Set<string>} */
      const succeeded = new Set();
      const stop = redrive.onEvent(({ type, taskId = "" }) => {
        if (type === "task.succeeded") succeeded.add(taskId);
        end();
      });
      const end = () => {
        if (!succeeded.has(created)) return;
        stop();
        resolve(undefined);
      };
      redrive.enqueue({ targetUrl, body: BODY }).then(({ taskId }) => {
        created = taskId;
        end();
      });
    });
    tookMs.push(performance.now() - startMs);
  }
  return median(tookMs);
}
