/**
 * Many slow targets at once, through real sockets, with the service in its own process: each attempt ends
 * in time, memory stays small, and a healthy target gets all of its tasks meanwhile.
 */
// needs: build
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type Behavior,
  drip,
  endless,
  flood,
  type HostileServer,
  hostileServer,
} from "../../faces/service/src/deliver/hostile-server.testing.ts";
import { complete, head } from "../../faces/service/src/deliver/hostile-table.testing.ts";
import { type Caller, callerOn } from "./test-server.ts";

const SCRIPT = fileURLToPath(new URL("./child-server-process.mjs", import.meta.url));
const MIB = 1 << 20;
const MAX_GROWTH_MIB = 50;
const DEADLINE_MS = 1500;
const MAX_LATE_MS = 250;
/** Targets of each kind, and tasks of each target. */
const TARGETS = 8;
const TASKS = 3;
const HEALTHY_TASKS = 200;

const dripping =
  (begin: string, text: string): Behavior =>
  (socket) => {
    socket.write(begin);
    drip(socket, endless(text), 5);
  };
const flooding =
  (begin: string, text: string): Behavior =>
  (socket) => {
    socket.write(begin);
    flood(socket, Buffer.from(text.repeat(Math.ceil(65_536 / text.length))));
  };

/** What a target does, and whether its attempts last until their deadline. */
const KINDS: readonly (readonly [does: string, behavior: Behavior, isLate: boolean])[] = [
  ["hangs", () => {}, true],
  ["drips headers", dripping("HTTP/1.1 200 X\r\nx: ", "y"), true],
  ["drips a body", dripping(head(200), "x"), true],
  ["drips 103", dripping("", head(103, "link: x")), true],
  ["floods with 103", flooding("", head(103, "link: x")), false],
  ["floods with line ends", flooding("", "\r\n"), false],
  ["sends an endless body", flooding(head(200), "x"), false],
  [
    "sends an endless chunk",
    flooding(`${head(500, "transfer-encoding: chunked")}ffffffff\r\n`, "x"),
    false,
  ],
];

const folder = mkdtempSync(join(tmpdir(), "redrive-slow-"));
const servers: HostileServer[] = [];
let child: ChildProcess;
let caller: Caller;

beforeAll(async () => {
  const execArgv = ["--expose-gc", "--single-threaded-gc"];
  child = fork(SCRIPT, [join(folder, "slow.db")], { execArgv });
  const [port] = (await once(child, "message")) as [number];
  caller = callerOn(port);
});

afterAll(async () => {
  caller.close();
  child.disconnect();
  await once(child, "exit");
  await Promise.all(servers.map((server) => server.close()));
  rmSync(folder, { recursive: true, force: true });
});

async function target(behavior: Behavior): Promise<string> {
  const server = await hostileServer(behavior);
  servers.push(server);
  return server.url("/");
}

/** The memory of the service, in MiB. */
function memoryMib(): number {
  const [, pages = "0"] = readFileSync(`/proc/${child.pid}/statm`, "utf8").split(" ");
  return (Number(pages) * 4096) / MIB;
}

const POLICY = { maxAttempts: 1, attemptTimeoutMs: DEADLINE_MS, totalBudgetMs: 60_000 };

interface Attempt {
  readonly durationMs: number;
  readonly outcome: string;
}

/** The id of a new task, once it has ended. */
async function run(targetUrl: string): Promise<string> {
  const body = { targetUrl, policy: POLICY, json: { n: 1 } };
  const headers = { prefer: "wait=25" };
  const { status, json } = await caller.call({ path: "/retry-tasks", headers, body });
  expect(status).toBe(200);
  return json.taskId;
}

async function attemptsOf(taskId: string): Promise<readonly Attempt[]> {
  const answer = await caller.call({ method: "GET", path: `/retry-tasks/${taskId}/attempts` });
  expect(answer.status, answer.text).toBe(200);
  return answer.json.attempts;
}

/** The longest time for which the service could not run: on a busy machine, nothing ends in time. */
async function maxDelayMs(): Promise<number> {
  child.send("delay");
  const [answer] = await once(child, "message");
  return answer as number;
}

/** One after the other. Returns the largest memory that was seen. */
async function runHealthy(url: string): Promise<number> {
  let peakMib = 0;
  for (let n = 0; n < HEALTHY_TASKS; n++) {
    const [attempt] = await attemptsOf(await run(url));
    expect(attempt?.outcome).toBe("success");
    peakMib = Math.max(peakMib, memoryMib());
  }
  return peakMib;
}

/** All tasks of a kind at once; each target is a destination of its own. */
async function runKind(behavior: Behavior): Promise<readonly string[]> {
  const urls = await Promise.all(Array.from({ length: TARGETS }, () => target(behavior)));
  return Promise.all(urls.flatMap((url) => Array.from({ length: TASKS }, () => run(url))));
}

// skipped: only Linux shows the memory of another process as a file
test.skipIf(process.platform !== "linux")(
  "beside many slow targets, attempts end in time, memory stays small and a healthy target is served",
  async () => {
    const healthy = await target(complete(200));
    await runHealthy(healthy);
    const beforeMib = memoryMib();
    const slow = Promise.all(KINDS.map(([, behavior]) => runKind(behavior)));
    const peakMib = await runHealthy(healthy);
    const kinds = await slow;
    const maxLateMs = MAX_LATE_MS + (await maxDelayMs());
    for (const [index, [does, , isLate]] of KINDS.entries()) {
      const durations: number[] = [];
      for (const taskId of kinds[index] ?? []) {
        for (const { durationMs } of await attemptsOf(taskId)) durations.push(durationMs);
      }
      expect(durations, does).toHaveLength(TARGETS * TASKS);
      expect(Math.max(...durations), does).toBeLessThan(DEADLINE_MS + maxLateMs);
      if (isLate) expect(Math.min(...durations), does).toBeGreaterThanOrEqual(DEADLINE_MS);
      else expect(Math.max(...durations), does).toBeLessThan(DEADLINE_MS);
    }
    expect(Math.max(peakMib, memoryMib()) - beforeMib).toBeLessThan(MAX_GROWTH_MIB);
  },
);
