/** The built `redrive serve` and `redrive doctor` with a real Redis server. */
// needs: redis, build
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { type RedisServer, startRedis } from "../servers/redis.ts";

const MAIN = fileURLToPath(new URL("../../apps/cli/bin/redrive.mjs", import.meta.url));
const { REDRIVE_URL: _, REDRIVE_API_KEY: __, REDRIVE_STORE: ___, ...env } = process.env;

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());

function start(...args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

async function serve(store: string) {
  const child = start("serve", "--port", "0", "--lease", "1s", "--store", store);
  const log: string[] = [];
  const url = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout! })
      .on("line", (line) => {
        log.push(line);
        const entry = JSON.parse(line);
        if (entry.msg.startsWith("Redrive is ready at ")) resolve(entry.url);
      })
      .on("close", () => reject(new Error("the process ended before it was ready")));
  });
  return { child, url, log };
}

async function run(...args: readonly string[]) {
  const child = start(...args);
  let out = "";
  child.stdout?.setEncoding("utf8").on("data", (text) => {
    out += text;
  });
  const [code] = await once(child, "close");
  return { out, code: code as number };
}

/** Remembers the tasks whose requests it has received. */
async function openTarget() {
  const delivered: string[] = [];
  const target = createServer((request, response) => {
    delivered.push(String(request.headers["idempotency-key"]));
    request.resume();
    response.end();
  });
  await once(target.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => {
    target.closeAllConnections();
    target.close();
  });
  return { url: `http://127.0.0.1:${(target.address() as AddressInfo).port}/orders`, delivered };
}

test("a service takes over the tasks of another one that is killed", async () => {
  const store = `${server.url}?prefix=killed`;
  const target = await openTarget();
  const [first, second] = await Promise.all([serve(store), serve(store)]);
  const scheduledAt = Date.now() + 2000;
  const posts = Array.from({ length: 40 }, async () => {
    const body = JSON.stringify({ targetUrl: target.url, json: {}, scheduledAt });
    const headers = { "content-type": "application/json" };
    const response = await fetch(`${first.url}/retry-tasks`, { method: "POST", headers, body });
    expect(response.status).toBe(202);
    return ((await response.json()) as { taskId: string }).taskId;
  });
  const taskIds = await Promise.all(posts);
  first.child.kill("SIGKILL");
  const isEarly = Date.now() < scheduledAt;
  const arrived = () => new Set(target.delivered);
  while (arrived().size < taskIds.length) await sleep(50);
  expect([...arrived()].sort()).toEqual([...taskIds].sort());
  // On a slow machine, the first service has sent some of them, and may not have stored their end.
  if (isEarly) expect(target.delivered).toHaveLength(taskIds.length);
  second.child.kill("SIGTERM");
  const [code] = await once(second.child, "close");
  expect(code).toBe(0);
});

test("the log does not contain the password of the store", async () => {
  const store = `redis://default:secret@${server.url.slice("redis://".length)}?prefix=log`;
  const { log } = await serve(store);
  // Parameters may contain a password too, so the log has none of them.
  expect(log.join("\n")).toContain(`"store":"${server.url}"`);
  expect(log.join("\n")).not.toContain("secret");
});

test("doctor shows the settings of the server", async () => {
  const found = await run("doctor", "--port", "0", "--store", server.url, "--json");
  const checks = JSON.parse(found.out).checks as { name: string; state: string; found: string }[];
  const byName = Object.fromEntries(checks.map(({ name, ...check }) => [name, check]));
  expect(byName["store"]).toMatchObject({ state: "ok", found: expect.stringContaining("Redis") });
  expect(byName["appendonly"]).toMatchObject({ state: "ok", found: "yes" });
  expect(byName["appendfsync"]).toMatchObject({ state: "ok", found: "always" });
  expect(byName["eviction"]).toMatchObject({ state: "ok", found: "noeviction" });
  expect(byName["replicas"]).toMatchObject({ state: "ok" });
  expect(found.code).toBe(0);
});

test("doctor says that there is no server", async () => {
  const { out, code } = await run("doctor", "--port", "0", "--store", "redis://127.0.0.1:1");
  expect(out).toContain("ECONNREFUSED");
  expect(code).toBe(1);
});
