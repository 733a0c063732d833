/**
 * A process that embeds Redrive, for tests that kill it. It submits tasks with the keys
 * `key-<from>` and following, `callers` at a time, and prints a line for every task that is stored.
 *
 * Usage: embedded-child.mjs <file> <target url> <mode> <from> <count> <callers> [<body bytes>], with mode `load`
 * (continues until it is killed), `drain` (ends once every task has ended) or `store` (submits
 * tasks for later, and ends).
 */
import { readFileSync, writeSync } from "node:fs";
import { createRedrive } from "@redrive/service";

const [file, targetUrl, mode, from, count, callers, bodyBytes = "0"] = process.argv.slice(2);

/**
 * Prints at once, and waits while the test has not read what was printed before.
 * @param {string} line
 */
function say(line) {
  for (let rest = Buffer.from(`${line}\n`); rest.length > 0; ) {
    try {
      rest = rest.subarray(writeSync(1, rest));
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== "EAGAIN") throw error;
    }
  }
}

/** How long this process waited for a core while others ran; 0 if that is unknown. */
function waitedMs() {
  try {
    const [, waitedNs] = readFileSync("/proc/self/schedstat", "utf8").split(" ");
    return Number(waitedNs) / 1e6;
  } catch {
    return 0;
  }
}

const policy = {
  maxAttempts: 6,
  initialDelayMs: 5,
  maxDelayMs: 50,
  attemptTimeoutMs: 2000,
  totalBudgetMs: 3_600_000,
};

const redrive = await createRedrive({
  store: `sqlite:${file}`,
  onFatal: (error) => {
    try {
      say(`fatal ${/** @type {Error} */ (error).message}`);
    } finally {
      process.exit(70);
    }
  },
});
const [origin = ""] = /^[^/]*\/\/[^/?]*/u.exec(targetUrl ?? "") ?? [];
await redrive.configure(origin, { retryBudget: false, breaker: false });
say(`ready ${Math.floor(performance.now())} ${Math.floor(waitedMs())}`);

let next = Number(from);
const end = next + Number(count);

async function callOnAndOn() {
  while (next < end) {
    const number = next++;
    const idempotencyKey = `key-${number}`;
    try {
      const { taskId } = await redrive.enqueue({
        targetUrl: targetUrl ?? "",
        body: `body ${number}`.padEnd(Number(bodyBytes)),
        idempotencyKey,
        policy,
        ...(mode === "store" && { scheduledAt: Date.now() + 3_600_000 }),
      });
      say(`ack ${number} ${taskId}`);
    } catch (error) {
      say(`nack ${number} ${/** @type {{ code?: string }} */ (error).code}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

await Promise.all(Array.from({ length: Number(callers) }, callOnAndOn));
say("handed over");

if (mode === "store") {
  await redrive.stop();
  process.exit(0);
}

if (mode === "drain") {
  for (;;) {
    const counts = await redrive.count();
    if ((counts.PENDING ?? 0) + (counts.IN_FLIGHT ?? 0) === 0) break;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  say("drained");
  await redrive.stop();
  say("stopped");
  process.exit(0);
}
