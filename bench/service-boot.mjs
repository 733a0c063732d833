/**
 * Boot: starts a service on a file with a million waiting tasks and 100,000 destinations, in a child
 * process. Limits, from the start of the process: 2 s until it accepts tasks, 2 s until a due task
 * of the last destination is delivered, and 400 MiB of RSS. With 100,000 destinations, no call may
 * keep the main thread busy for more than 5 ms. The benchmark compares whole turns of the event loop with that,
 * once the port is open: a turn has at least one call. Calls on these destinations are listed with their
 * times. `BENCH_PENDING`, `BENCH_DESTINATIONS`: sizes. `BENCH_DUE`: the share of destinations whose
 * tasks are due at once; the others are due in the next 24 hours. `BENCH_GUARDS`: the share of
 * destinations with saved guard state.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRedrive, sqliteStore } from "@redrive/service";
import { createApp } from "@redrive/service/http";
import { printVerdicts } from "./bars.mjs";
import { inFolder, quantile, setting } from "./service-parts.mjs";

const TASKS = setting("BENCH_PENDING", 1_000_000);
const DESTINATIONS = setting("BENCH_DESTINATIONS", 100_000);
const DUE = setting("BENCH_DUE", 0.01);
const GUARDS = setting("BENCH_GUARDS", 0.5);
const MAX_READY_MS = 2000;
const MAX_RSS_MIB = 400;
const MAX_TURN_MS = 5;
const DAY_MS = 86_400_000;
/** No task becomes due this soon after the file was built. */
const WAIT_MS = 20 * 60_000;
const MAX_AGE_MS = WAIT_MS / 2;

const nameOf = (/** @type {number} */ number) => `https://d${number}.example.com`;

/** The tasks do not expire while the file is kept. */
const POLICY = JSON.stringify({ maxAttempts: 3, totalBudgetMs: 30 * DAY_MS });

/** The guard state of a destination after some calls, as the service saves it. */
const GUARD_TEXT = JSON.stringify({
  retryBudget: { kind: "RATIO", window: { at: 0, counts: Array(10).fill([40, 3]) } },
  concurrency: { limit: 18, inFlight: 0, ramp: 0 },
  latency: { at: 0, counts: { size: 256, filled: Array.from({ length: 60 }, (_, n) => n + 7) } },
  breaker: null,
});

/** Writes the rows directly: a hundred times as fast as creating the tasks. @param {string} file */
async function build(file) {
  // The store makes the schema.
  await sqliteStore(file).close();
  const require = createRequire(import.meta.resolve("@redrive/service"));
  const { DatabaseSync } = require("@photostructure/sqlite");
  const database = new DatabaseSync(file);
  database.exec("PRAGMA synchronous = OFF; PRAGMA cache_size = -500000");
  const insert = (/** @type {string} */ table, /** @type {string} */ columns) => {
    const cells = columns.split(",").map(() => "?");
    return database.prepare(`INSERT INTO ${table} (${columns}) VALUES (${cells.join(", ")})`);
  };
  const destination = insert(
    "destinations",
    `destination_id, tenant_id, name, version, document, paused_at, gate_until, breaker_state,
    open_until, open_count`,
  );
  const count = insert("counts", "destination_id, status, count");
  const document = insert("documents", "kind, tenant_id, id, version, text");
  const policy = insert("policies", "tenant_id, policy_id, version, document, created_at");
  const task = database.prepare(`INSERT INTO tasks (ref, tenant_id, task_id, destination_id, status,
    lane, next_attempt_at, attempt_number, claim_epoch, last_delay_ms, abandoned_count)
    VALUES (?, 'default', ?, ?, 0, 0, ?, 0, 0, 0, 0)`);
  const payload = database.prepare(`INSERT INTO payloads (ref, created_at, scheduled_at, target_url,
    method, headers, policy_id, policy_version, idempotent, labels, body)
    VALUES (?, ?, ?, ?, 'POST', '{}', 'background', 1, 1, '{}', ?)`);
  const now = Date.now();
  const body = Buffer.alloc(512, "x");
  const each = Math.ceil(TASKS / DESTINATIONS);
  database.exec("BEGIN");
  policy.run("default", "background", 1, POLICY, now);
  for (let id = 1; id <= DESTINATIONS; id++) {
    destination.run(id, "default", nameOf(id), 0, null, null, 0, "CLOSED", 0, 0);
    count.run(id, 0, each);
    if (id <= DESTINATIONS * GUARDS) document.run("guards", "default", nameOf(id), 1, GUARD_TEXT);
  }
  const dueFrom = DESTINATIONS - DESTINATIONS * DUE;
  for (let ref = 1; ref <= TASKS; ref++) {
    const id = 1 + ((ref - 1) % DESTINATIONS);
    // The last destinations are due, because they are loaded last.
    const dueAt = id > dueFrom ? now : now + WAIT_MS + ((ref * 7919) % DAY_MS);
    task.run(ref, String(ref).padStart(36, "0"), id, dueAt);
    payload.run(ref, now, dueAt, "http://127.0.0.1:9/", body);
  }
  database.exec("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)");
  database.close();
}

/** The highest RSS of this process, as the kernel has counted it. */
function peakMiB() {
  const line = readFileSync("/proc/self/status", "utf8").match(/VmHWM:\s+(\d+)/);
  return Number(line?.[1] ?? 0) / 1024;
}

/** The child: boots as `redrive serve` does, and reports. @param {string} file */
async function boot(file) {
  const lastName = nameOf(DESTINATIONS);
  const redrive = await createRedrive({ store: `sqlite:${file}` });
  const delivered = new Promise((resolve) => {
    redrive.onEvent((event) => {
      if (event.type === "attempt.started" && event.destination === lastName) resolve(sinceStart());
    });
  });
  const app = createApp(redrive);
  await app.listen({ port: 0, host: "127.0.0.1" });
  const url = `http://127.0.0.1:${portOf(app.server)}`;
  const sink = createServer((_, response) => response.end()).listen(0, "127.0.0.1");
  await once(sink, "listening");
  const accepted = await fetch(`${url}/retry-tasks`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ targetUrl: `http://127.0.0.1:${portOf(sink)}/` }),
  });
  if (accepted.status !== 202) throw new Error(`a task was not accepted: ${accepted.status}`);
  const readyMs = sinceStart();
  const turns = watchTurns();
  const deliveredMs = await delivered;
  const calls = await callTimes(url);
  // A round of maintenance, with its sweep.
  await new Promise((resolve) => setTimeout(resolve, 5000));
  const turnTimes = turns.stop();
  process.send?.({
    readyMs,
    deliveredMs,
    peakMiB: peakMiB(),
    maxTurnMs: quantile(turnTimes, 1),
    p99TurnMs: quantile(turnTimes, 0.99),
    calls,
  });
  sink.close();
  await app.close();
  await redrive.stop(0);
  process.exit(0);
}

/**
 * Measures for how long each turn of the event loop keeps the main thread busy, in ms: the time that
 * passes, or the processor time, whichever is less. The first includes time in which the machine runs
 * something else; the kernel counts the second in ticks.
 */
function watchTurns() {
  /** @type {number[]} */
  const times = [];
  const ranMs = () =>
    Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;
  let last = { passedMs: performance.now(), ranMs: ranMs() };
  let timer = setImmediate(measure);
  function measure() {
    const now = { passedMs: performance.now(), ranMs: ranMs() };
    times.push(Math.min(now.passedMs - last.passedMs, now.ranMs - last.ranMs));
    last = now;
    timer = setImmediate(measure);
  }
  return {
    stop() {
      clearImmediate(timer);
      return times;
    },
  };
}

/** @param {import("node:net").Server} server */
function portOf(server) {
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}

/** The durations of calls that read many destinations. @param {string} url */
async function callTimes(url) {
  /** @type {Record<string, number>} */
  const times = {};
  for (const path of ["/destinations?limit=250", "/metrics", "/readyz"]) {
    const startMs = performance.now();
    const response = await fetch(url + path);
    await response.text();
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    times[path] = Math.round(performance.now() - startMs);
  }
  return times;
}

/** Since the process started, including the start of Node and all imports. */
const sinceStart = () => performance.now();

if (process.argv[2] === "boot") {
  await boot(process.argv[3] ?? "");
} else {
  const version = "3";
  const name = `redrive-boot-${version}-${TASKS}-${DESTINATIONS}-${DUE}-${GUARDS}.db`;
  const kept = join(tmpdir(), name);
  // The file is kept, because building it takes longest. Later, tasks that should wait are due.
  const isFresh = existsSync(kept) && Date.now() - statSync(kept).mtimeMs < MAX_AGE_MS;
  if (!isFresh) {
    await inFolder(async (building) => {
      await build(join(building, "redrive.db"));
      renameSync(join(building, "redrive.db"), kept);
    });
  }
  const folder = mkdtempSync(join(tmpdir(), "redrive-boot-"));
  try {
    const file = join(folder, "redrive.db");
    copyFileSync(kept, file);
    const child = fork(new URL(import.meta.url), ["boot", file]);
    const [result] = await once(child, "message");
    await once(child, "exit");
    const sizes = { tasks: TASKS, destinations: DESTINATIONS, due: DUE, guards: GUARDS };
    console.log(JSON.stringify({ bench: "boot", ...sizes, ...result }));
    const bar = (
      /** @type {string} */ text,
      /** @type {number} */ got,
      /** @type {number} */ max,
    ) => ({
      bar: `${text}: at most ${max}`,
      got: got.toFixed(0),
      ok: got <= max,
    });
    printVerdicts("boot", [
      bar("ms until a task is accepted", result.readyMs, MAX_READY_MS),
      bar("ms until a due task of the last destination is sent", result.deliveredMs, MAX_READY_MS),
      bar("MiB of RSS at the peak", result.peakMiB, MAX_RSS_MIB),
      bar("ms of the longest turn once the port is open", result.maxTurnMs, MAX_TURN_MS),
    ]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
