/** The built `redrive export` and `redrive import` move a store: SQLite to PostgreSQL to Redis to SQLite. */
// needs: postgres, redis, build
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { createRedrive, exportStore, postgresStore } from "@redrive/service";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { type PostgresServer, startPostgres } from "../servers/postgres.ts";
import { type RedisServer, startRedis } from "../servers/redis.ts";

const MAIN = fileURLToPath(new URL("../../apps/cli/bin/redrive.mjs", import.meta.url));
const { REDRIVE_URL: _, REDRIVE_API_KEY: __, REDRIVE_STORE: ___, ...env } = process.env;
const POLL = { timeout: 60_000, interval: 20 };
const HOUR = 3_600_000;
const BODY = Buffer.from(Uint8Array.from({ length: 256 }, (_unused, byte) => byte));

let postgres: PostgresServer;
let redis: RedisServer;
let folder = "";
/** What the target does with `/hang` and `/fail`. */
let isWell = false;
let received: { url: string; body: Buffer; key: string }[] = [];

const target = createServer((request, response) => {
  const parts: Buffer[] = [];
  request.on("data", (part: Buffer) => parts.push(part));
  request.on("end", () => {
    const { url = "", headers } = request;
    received.push({ url, body: Buffer.concat(parts), key: String(headers["idempotency-key"]) });
    if (!isWell && url === "/hang") return;
    response.writeHead(!isWell && url.startsWith("/fail") ? 500 : 200).end("seen");
  });
});

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "redrive-move-"));
  [postgres, redis] = await Promise.all([startPostgres(), startRedis()]);
  await once(target.listen(0, "127.0.0.1"), "listening");
});
afterAll(async () => {
  target.closeAllConnections();
  target.close();
  await Promise.all([postgres.stop(), redis.stop()]);
  rmSync(folder, { recursive: true });
});

const to = (path: string) => `http://127.0.0.1:${(target.address() as AddressInfo).port}${path}`;

function start(...args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, [MAIN, ...args], { env, stdio: "pipe" });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

async function ended(child: ChildProcess): Promise<Ended> {
  let [out, err] = ["", ""];
  child.stdout?.setEncoding("utf8").on("data", (text) => {
    out += text;
  });
  child.stderr?.setEncoding("utf8").on("data", (text) => {
    err += text;
  });
  const [code] = await once(child, "close");
  return { code: code as number, out, err };
}

function run(...args: readonly string[]): Promise<Ended> {
  const child = start(...args);
  child.stdin?.end();
  return ended(child);
}

async function serve(store: string) {
  const child = start("serve", "--port", "0", "--lease", "1s", "--store", store);
  const url = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout! })
      .on("line", (line) => {
        const entry = JSON.parse(line);
        if (entry.msg.startsWith("Redrive is ready at ")) resolve(entry.url);
      })
      .on("close", () => reject(new Error("the process ended before it was ready")));
  });
  const call = async (method: string, path: string, content?: object) => {
    const headers = content === undefined ? {} : { "content-type": "application/json" };
    const body = content === undefined ? {} : { body: JSON.stringify(content) };
    const response = await fetch(`${url}${path}`, { method, headers, ...body });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text && JSON.parse(text) };
  };
  const end = async (signal: "SIGTERM" | "SIGKILL") => {
    child.kill(signal);
    await once(child, "close");
  };
  return { call, end };
}

type Service = Awaited<ReturnType<typeof serve>>;

const TASKS = {
  succeeded: () => ({ targetUrl: to("/ok"), bodyBase64: BODY.toString("base64") }),
  dead: () => ({ targetUrl: to("/fail"), policy: { maxAttempts: 1 } }),
  waiting: () => ({ targetUrl: to("/later"), json: { n: 1 }, scheduledAt: Date.now() + HOUR }),
  retried: () => ({ targetUrl: to("/fail-once"), policyId: "slow", labels: { team: "a" } }),
  canceled: () => ({ targetUrl: to("/never"), scheduledAt: Date.now() + HOUR }),
  running: () => ({ targetUrl: to("/hang"), policyId: "slow" }),
};

type Name = keyof typeof TASKS;
const NAMES = Object.keys(TASKS) as Name[];
const inputs = {} as Record<Name, object>;
const ids = {} as Record<Name, string>;

const statusOf = async ({ call }: Service, name: Name) =>
  (await call("GET", `/retry-tasks/${ids[name]}`)).body.status;

/** Brings the tasks into all states, and kills the service while one is running. */
async function fillSource(store: string): Promise<void> {
  const service = await serve(store);
  const used = await run("export", "--store", store);
  expect(used).toMatchObject({ code: 1, out: "", err: expect.stringContaining("in use") });
  const { call } = service;
  // Only a request to retry now makes the next attempt.
  const wait = { initialDelayMs: HOUR, jitterType: "NONE", totalBudgetMs: 24 * HOUR };
  const patient = { ...wait, attemptTimeoutMs: 600_000 };
  for (const maxAttempts of [3, 4]) {
    await call("PUT", "/retry-policies/slow", { policyId: "slow", maxAttempts, ...patient });
  }
  await call("PUT", "/retry-policies/gone", { maxAttempts: 2 });
  await call("DELETE", "/retry-policies/gone");
  await call("PUT", "/destinations/limited", { rate: { perSecond: 5, burst: 5 } });
  await call("POST", "/destinations/limited/pause");
  for (const name of NAMES) {
    inputs[name] = { ...TASKS[name](), idempotencyKey: `key-${name}` };
    const { status, body } = await call("POST", "/retry-tasks", inputs[name]);
    expect(status).toBe(202);
    ids[name] = body.taskId;
  }
  await call("DELETE", `/retry-tasks/${ids.canceled}`);
  const wanted = ["SUCCEEDED", "EXHAUSTED", "PENDING", "PENDING", "CANCELLED", "IN_FLIGHT"];
  const states = () => Promise.all(NAMES.map((name) => statusOf(service, name)));
  await expect.poll(states, POLL).toEqual(wanted);
  await expect.poll(() => received.some(({ url }) => url === "/hang"), POLL).toBe(true);
  await service.end("SIGKILL");
}

/** Everything that the issue asks of a moved store, on a service that runs on it. */
async function checkMoved(store: string, used: string): Promise<void> {
  isWell = true;
  received = [];
  const service = await serve(store);
  const { call } = service;
  for (const name of NAMES) {
    const replayed = await call("POST", "/retry-tasks", inputs[name]);
    expect([replayed.status, replayed.body.taskId]).toEqual([200, ids[name]]);
    expect(replayed.headers.get("idempotent-replayed")).toBe("true");
    const other = { targetUrl: to("/other"), idempotencyKey: `key-${name}` };
    expect((await call("POST", "/retry-tasks", other)).status).toBe(422);
  }
  for (const name of ["waiting", "retried", "running"] as const) {
    const retryNow = async () => {
      await call("POST", `/retry-tasks/${ids[name]}/retry`);
      return statusOf(service, name);
    };
    await expect.poll(retryNow, POLL).toBe("SUCCEEDED");
  }
  const { attempts } = (await call("GET", `/retry-tasks/${ids.running}/attempts`)).body;
  expect(attempts.map((one: { outcome: string }) => one.outcome)).toEqual(["abandoned", "success"]);
  const redrive = { filter: { destination: new URL(to("/")).origin }, ratePerSecond: 100 };
  expect((await call("POST", "/redrives", redrive)).status).toBeLessThan(300);
  const redriven = () => received.filter(({ key }) => key === "key-dead").length;
  await expect.poll(redriven, POLL).toBe(1);
  expect(received.filter(({ url }) => url === "/never" || url === "/ok")).toEqual([]);
  const limited = (await call("GET", "/destinations/limited")).body;
  expect(JSON.stringify(limited)).toContain('"perSecond":5');
  const exported = await run("export", "--store", store);
  expect(exported).toMatchObject({ code: 1, out: "", err: expect.stringContaining(used) });
  await service.end("SIGTERM");
}

/** The rows of an export, without its header and trailer. */
function rowsOf(file: string): readonly string[] {
  const lines = readFileSync(file, "utf8").trimEnd().split("\n");
  return lines.slice(1, -1);
}

test("a store moves from SQLite to PostgreSQL to Redis to SQLite, with nothing lost", async () => {
  const source = `sqlite:${join(folder, "source.db")}`;
  const sql = `${postgres.url}?schema=moved`;
  const cache = `${redis.url}?prefix=moved`;
  const last = `sqlite:${join(folder, "last.db")}`;
  const [first, third, fourth] = ["first", "third", "fourth"].map((name) => join(folder, name));
  await fillSource(source);

  const exported = await run("export", "--store", source, "--out", first!);
  expect(exported).toMatchObject({ code: 0, err: expect.stringContaining("exported 6 tasks") });
  const count = rowsOf(first!).length;
  const toPostgres = await run("import", "--store", sql, "--in", first!, "--json");
  expect(toPostgres.code).toBe(0);
  expect(JSON.parse(toPostgres.out)).toMatchObject({ added: count, same: 0, different: [] });

  // Through a pipe, as in `redrive export | redrive import`.
  const [reader, writer] = [start("export", "--store", sql), start("import", "--store", cache)];
  reader.stdout?.pipe(writer.stdin!);
  const [read, written] = await Promise.all([ended(reader), ended(writer)]);
  expect(read.code).toBe(0);
  expect(written).toMatchObject({ code: 0, out: expect.stringMatching(`^${count} `) });

  expect((await run("export", "--store", cache, "--out", third!)).code).toBe(0);
  expect((await run("import", "--store", last, "--in", third!)).code).toBe(0);
  expect((await run("export", "--store", last, "--out", fourth!)).code).toBe(0);
  expect(rowsOf(fourth!)).toEqual(rowsOf(first!));
  expect([...rowsOf(third!)].sort()).toEqual([...rowsOf(first!)].sort());

  await checkMoved(last, "in use");
  await checkMoved(cache, "runs on the store");
  const after = await run("import", "--store", cache, "--in", first!);
  expect(after.code).toBe(1);
  expect(after.out).toMatch(/line \d+: the store has another/u);
});

/** An export of a store with many tasks, as lines. */
async function manyTasks(count: number): Promise<readonly string[]> {
  const store = `sqlite:${join(folder, "many.db")}`;
  const redrive = await createRedrive({ store });
  const task = { targetUrl: to("/later"), scheduledAt: Date.now() + HOUR };
  const tasks = Array.from({ length: count }, (_unused, n) => ({
    ...task,
    idempotencyKey: `${n}`,
  }));
  await redrive.enqueueMany(tasks);
  await redrive.stop();
  return exportLines(store);
}

async function exportLines(store: string): Promise<readonly string[]> {
  const lines: string[] = [];
  const write = async (line: string) => void lines.push(line);
  await exportStore(store, { store: "sqlite", now: 0, write });
  return lines;
}

test("an import that was killed is completed by a second run", async () => {
  const lines = await manyTasks(600);
  const schema = `${postgres.url}?schema=killed`;
  const child = start("import", "--store", schema);
  // The pipe breaks when the process is killed.
  child.stdin?.on("error", () => {});
  child.stdin?.write(lines.slice(0, 500).join(""));
  const store = await postgresStore(schema);
  onTestFinished(() => store.close());
  const stored = async () => (await store.query.count("default")).PENDING ?? 0;
  await expect.poll(stored, POLL).toBeGreaterThan(0);
  child.kill("SIGKILL");
  await once(child, "close");
  const before = await stored();
  expect(before).toBeLessThan(600);
  const file = join(folder, "many");
  writeFileSync(file, lines.join(""));
  const second = await run("import", "--store", schema, "--in", file, "--json");
  expect(second.code).toBe(0);
  const { added, same } = JSON.parse(second.out);
  expect(added).toBe(600 - before);
  expect(added + same).toBe(lines.length - 2);
  expect(await stored()).toBe(600);
  expect((await exportLines(schema)).slice(1, -1)).toEqual(lines.slice(1, -1));
});
