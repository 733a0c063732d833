/**
 * Tests of endurance: a service in a separate process, under all bad input three times, and under
 * kill -9.
 */
// needs: build
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { ROWS } from "./rows.ts";
import { type Caller, callerOn, openTarget, type Target } from "./test-server.ts";

const SCRIPT = fileURLToPath(new URL("./child-server-process.mjs", import.meta.url));
const MAX_GROWTH = 20 * 1024 * 1024;
const KILLS = 5;

const folder = mkdtempSync(join(tmpdir(), "redrive-endurance-"));
let target: Target;
let child: ChildProcess;
beforeAll(async () => {
  target = await openTarget();
});
afterEach(() => child.kill("SIGKILL"));
afterAll(async () => {
  await target.close();
  rmSync(folder, { recursive: true, force: true });
});

async function serve(file: string): Promise<Caller> {
  // One arena: otherwise memory that pool threads free stays theirs and looks like growth.
  const env = { ...process.env, MALLOC_ARENA_MAX: "1" };
  child = fork(SCRIPT, [join(folder, file)], { env, execArgv: ["--expose-gc"] });
  const [port] = await once(child, "message");
  return callerOn(port as number);
}

async function memory(): Promise<number> {
  child.send("memory?");
  return (await once(child, "message"))[0] as number;
}

test("three rounds of bad input: no 5xx, healthy, and no growth above 20 MiB", async () => {
  const caller = await serve("rounds.db");
  const server = { ...caller, target };
  const round = async () => {
    for (const { row, what, sent } of ROWS) {
      const bytes = sent(server);
      const isRaw = typeof bytes === "string" || Buffer.isBuffer(bytes);
      const { status } = isRaw ? await caller.rawCall(bytes) : await caller.call(bytes);
      expect(status, `${row}: ${what}`).toBeLessThan(500);
    }
  };
  // The allocator needs some rounds to reach its size; only growth beyond that counts.
  let before = 0;
  for (let n = 0; n < 4; n++) {
    await round();
    before = Math.max(before, await memory());
  }
  // On a busy machine a collection may be late once; a leak grows by the same amount every time.
  const growths: number[] = [];
  do {
    for (let n = 0; n < 3; n++) await round();
    const after = await memory();
    growths.push(after - before);
    before = after;
  } while ((growths.at(-1) ?? 0) >= MAX_GROWTH && growths.length < 3);
  expect(growths.at(-1), `growths ${growths}`).toBeLessThan(MAX_GROWTH);
  const created = await caller.call({
    body: { targetUrl: target.url },
    headers: { prefer: "wait=10" },
  });
  expect([created.status, created.json.status]).toEqual([200, "SUCCEEDED"]);
  expect((await caller.call({ method: "GET", path: "/readyz" })).json).toMatchObject({
    status: "ok",
  });
  caller.close();
});

test(`I1, I18: through ${KILLS} kills, each key is one task, and no acknowledged task is lost`, async () => {
  const answered = new Map<string, string>();
  const body = (key: string) => ({
    targetUrl: target.url,
    idempotencyKey: key,
    scheduledAt: Date.now() + 3_600_000,
  });
  const hand = async (caller: Caller, key: string) => {
    const { status, json } = await caller.call({ body: body(key) });
    expect([200, 202]).toContain(status);
    expect(json.taskId).toBe(answered.get(key) ?? json.taskId);
    answered.set(key, json.taskId);
  };
  for (let kill = 0; kill < KILLS; kill++) {
    const caller = await serve("kills.db");
    const keys = Array.from({ length: 200 }, (_, n) => `key-${kill}-${n}`);
    const handed = keys.map((key) => hand(caller, key).catch(() => undefined));
    // Some get a response, some are stored without a response, and some get neither.
    await Promise.race(handed);
    child.kill("SIGKILL");
    await Promise.all(handed);
    caller.close();
  }
  const caller = await serve("kills.db");
  // Sent again, every key is known: a key that got a response returns the same task.
  for (let kill = 0; kill < KILLS; kill++) {
    await Promise.all(Array.from({ length: 200 }, (_, n) => hand(caller, `key-${kill}-${n}`)));
  }
  expect(new Set(answered.values()).size).toBe(KILLS * 200);
  let count = 0;
  let cursor: string | null = "";
  while (cursor !== null) {
    const more: string = cursor === "" ? "" : `&cursor=${cursor}`;
    const { json } = await caller.call({ method: "GET", path: `/retry-tasks?limit=250${more}` });
    count += json.tasks.length;
    cursor = json.cursor;
  }
  expect(count).toBe(KILLS * 200);
  caller.close();
});
