/** Three processes with one store: races, processes that are killed, and processes that stop. */
// needs: build, postgres, redis
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { Redis } from "ioredis";
import { Pool } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startPostgres } from "../../servers/postgres.ts";
import { startRedis } from "../../servers/redis.ts";
import { ChargesProcess } from "./charges-process.ts";

interface Place {
  readonly place: string;
  /** How often the charge with this key took effect. */
  effects(key: string): Promise<number>;
  close(): Promise<void>;
}

async function sqlitePlace(): Promise<Place> {
  const folder = mkdtempSync(join(tmpdir(), "redrive-charges-"));
  const place = join(folder, "charges.db");
  const created = new DatabaseSync(place);
  created.exec("PRAGMA journal_mode = WAL");
  created.exec("CREATE TABLE charges (name TEXT)");
  created.close();
  const query = "SELECT count(*) AS count FROM charges WHERE name = ?";
  return {
    place,
    async effects(key) {
      const db = new DatabaseSync(place);
      const { count } = db.prepare(query).get(key) as { count: number };
      db.close();
      return count;
    },
    close: async () => rmSync(folder, { recursive: true }),
  };
}

async function postgresPlace(): Promise<Place> {
  const server = await startPostgres();
  const pool = new Pool({ connectionString: server.url, max: 1 });
  pool.on("error", () => undefined);
  await pool.query("CREATE TABLE charges (name text)");
  return {
    place: server.url,
    async effects(key) {
      const text = "SELECT count(*)::int AS count FROM charges WHERE name = $1";
      return (await pool.query(text, [key])).rows[0].count;
    },
    async close() {
      await pool.end();
      await server.stop();
    },
  };
}

async function redisPlace(): Promise<Place> {
  const server = await startRedis();
  const client = new Redis(server.url);
  return {
    place: server.url,
    effects: async (key) =>
      (await client.lrange("charges", 0, -1)).filter((name) => name === key).length,
    async close() {
      client.disconnect();
      await server.stop();
    },
  };
}

const places = { sqlite: sqlitePlace, postgres: postgresPlace, redis: redisPlace };

describe.each(["sqlite", "postgres", "redis"] as const)("%s", (kind) => {
  let place: Place;
  const processes: ChargesProcess[] = [];
  beforeAll(async () => {
    place = await places[kind]();
    processes.push(...(await Promise.all([start(), start(), start()])));
  });
  afterAll(async () => {
    for (const one of processes) await one.kill();
    await place.close();
  });

  const start = () => new ChargesProcess(kind, place.place).start();

  test("100 racing requests in three processes cause one execution", async () => {
    const results = await Promise.all(
      Array.from({ length: 100 }, (_, n) => processes[n % 3]?.charge("raced")),
    );
    const executed = results.filter((one) => one?.status === 201 && !one.isReplayed);
    expect(executed).toHaveLength(1);
    expect(await place.effects("raced")).toBe(1);
    const others = results.filter((one) => one?.status !== 201).map((one) => one?.status);
    expect(new Set(others).size).toBeLessThanOrEqual(1);
    for (const status of others) expect(status).toBe(409);
    const replayed = results.filter((one) => one?.isReplayed);
    for (const one of replayed) expect(one?.body).toBe(executed[0]?.body);
    const again = await processes[0]?.charge("raced");
    expect(again).toEqual({ status: 201, isReplayed: true, body: executed[0]?.body });
  });

  test("20 keys that 100 requests race for are executed once each", async () => {
    const results = await Promise.all(
      Array.from({ length: 100 }, (_, n) => processes[n % 3]?.charge(`key-${n % 20}`)),
    );
    expect(results.filter((one) => one?.status === 201 && !one.isReplayed)).toHaveLength(20);
    for (let n = 0; n < 20; n++) expect(await place.effects(`key-${n}`)).toBe(1);
  });

  test("kill -9 before the effect is committed: the key is free after its lease, and one effect remains", async () => {
    const victim = await start();
    const paused = victim.said("paused");
    const cutOff = victim.charge("killed", { "x-pause": "before-commit" });
    cutOff.catch(() => undefined);
    await paused;
    expect((await processes[0]?.charge("killed"))?.status).toBe(409);
    await victim.kill();
    await expect(cutOff).rejects.toThrow();
    expect(await place.effects("killed")).toBe(0);
    const next = await processes[0]?.chargeUntilFree("killed");
    expect(next).toMatchObject({ status: 201, isReplayed: false });
    expect(await place.effects("killed")).toBe(1);
  });

  // On Redis, the effect and the key cannot commit together.
  if (kind === "redis") return;

  test("kill -9 after the commit and before the response: the repetition gets the response at once", async () => {
    const victim = await start();
    const paused = victim.said("paused");
    victim.charge("committed", { "x-pause": "after-commit" }).catch(() => undefined);
    await paused;
    await victim.kill();
    expect(await processes[0]?.charge("committed")).toMatchObject({
      status: 201,
      isReplayed: true,
    });
    expect(await place.effects("committed")).toBe(1);
  });

  test("a process that stops for longer than its lease: its effect is rolled back, and its client gets 409", async () => {
    const late = await start();
    const paused = late.said("paused");
    const response = late.charge("stopped", { "x-pause": "before-commit" });
    await paused;
    late.signal("SIGSTOP");
    const next = await processes[0]?.chargeUntilFree("stopped");
    expect(next).toMatchObject({ status: 201, isReplayed: false });
    late.signal("SIGCONT");
    late.goOn();
    const answer = await response;
    expect(answer.status).toBe(409);
    expect(answer.body).toContain("IDEMPOTENCY_LEASE_LOST");
    expect(await place.effects("stopped")).toBe(1);
    expect((await processes[1]?.charge("stopped"))?.body).toBe(next?.body);
    await late.kill();
  });
});
