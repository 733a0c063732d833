/**
 * Clients: a process with many clients that each send one request after the other, with a time limit per
 * attempt, and retry what fails. They obey Retry-After, because `retry` does.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { retry } from "redrive";

/**
 * @typedef {object} Load
 * @property {string} url
 * @property {number} clients
 * @property {number} timeoutMs of each attempt
 * @property {number} seconds how long to measure; 0: each client sends one request
 * @property {number} warmUpSeconds before that
 */

/**
 * @typedef {object} ClientReport
 * @property {number} succeeded requests that got their response in time
 * @property {number} failed requests that were given up
 * @property {number} attempts
 * @property {number} refused attempts that were answered with 503
 * @property {number} goodput successes per second, after the warm-up
 */

/** Runs the clients in a process of their own. @param {Load} load @returns {Promise<ClientReport>} */
export async function runClients(load) {
  // The arguments of a test runner's Node are not for this process.
  const child = fork(fileURLToPath(import.meta.url), { execArgv: [] });
  child.send(load);
  return await new Promise((resolve, reject) => {
    child.once("message", (report) => resolve(/** @type {ClientReport} */ (report)));
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`the clients ended early, with ${code}`)));
  });
}

/** @param {Load} load @returns {Promise<ClientReport>} */
async function sendAll({ url, clients, seconds, warmUpSeconds, timeoutMs }) {
  const agent = new Agent({ keepAlive: true, maxSockets: clients });
  const report = { succeeded: 0, failed: 0, attempts: 0, refused: 0, goodput: 0 };
  const policy = { maxAttempts: 12, attemptTimeoutMs: timeoutMs, totalBudgetMs: 60_000 };
  let isOver = false;

  /** @param {import("redrive").AttemptContext} context */
  function send({ attempt, signal }) {
    report.attempts++;
    return new Promise((resolve, reject) => {
      const headers = { "redrive-attempt": String(attempt) };
      const sent = request(url, { agent, headers, signal }, (response) => {
        const { statusCode: status = 0 } = response;
        response.resume();
        response.on("error", reject);
        response.on("end", () => {
          if (status === 503) report.refused++;
          if (status === 200) resolve(undefined);
          else reject(Object.assign(new Error("refused"), { status, headers: response.headers }));
        });
      });
      sent.on("error", reject);
      sent.end();
    });
  }

  async function client() {
    do {
      await retry(send, policy).then(
        () => report.succeeded++,
        () => report.failed++,
      );
    } while (!isOver && seconds > 0);
  }

  const all = Promise.all(Array.from({ length: clients }, client));
  if (seconds === 0) await all;
  await sleep(warmUpSeconds * 1000);
  const before = report.succeeded;
  const startMs = performance.now();
  await sleep(seconds * 1000);
  report.goodput = ((report.succeeded - before) * 1000) / (performance.now() - startMs);
  isOver = true;
  return report;
}

if (process.send !== undefined && process.argv[1] === fileURLToPath(import.meta.url)) {
  const [load] = await once(process, "message");
  process.send(await sendAll(load), () => process.exit());
}
