/**
 * Few-files child: embeds the service in a process that may open few files, and prints as JSON what
 * became of its tasks. Arguments: store, target URL, number of tasks, attempts at once, open files.
 */
import { execFileSync } from "node:child_process";
import { createRedrive } from "@redrive/service";

const [store = "", targetUrl = "", count, attemptsAtOnce, files] = process.argv.slice(2);
const redrive = await createRedrive({
  store,
  attemptsAtOnce: Number(attemptsAtOnce),
  attemptsPerOrigin: Number(attemptsAtOnce),
});
// Opens the files that reading needs, which no attempt may take away.
await redrive.list({}, { limit: 1 });
// Only now: Node opens all modules of an import at once.
execFileSync("prlimit", ["--pid", String(process.pid), `--nofile=${files}:${files}`]);
/** @type {unknown[]} */
const shortages = [];
const ended = new Map();
/** @type {Promise<void>} */
const isDone = new Promise((resolve) => {
  redrive.onEvent((event) => {
    if (event.type === "node.shortage") shortages.push(event.reason);
    if (event.type !== "task.succeeded" && event.type !== "task.exhausted") return;
    ended.set(event.taskId, event.type);
    if (ended.size === Number(count)) resolve();
  });
});
// Each destination has its own limit, so together they ask for more files than there are.
const inputs = Array.from({ length: Number(count) }, (_, n) => ({
  method: "POST",
  targetUrl,
  destination: `name-${n % 40}`,
  policy: { maxAttempts: 3, totalBudgetMs: 120_000, connectTimeoutMs: 10_000 },
}));
for (const result of await redrive.enqueueMany(inputs)) {
  if (result.status === "rejected") throw result.reason;
}
await isDone;
const { tasks } = await redrive.list({}, { limit: 500 });
const { destinations } = await redrive.health();
await redrive.stop();
process.stdout.write(
  JSON.stringify({
    shortages,
    tasks: tasks.map(({ status, attemptNumber, lastError }) => [status, attemptNumber, lastError]),
    breakers: destinations.map(({ breakerState }) => breakerState),
  }),
);
