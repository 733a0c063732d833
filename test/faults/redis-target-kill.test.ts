/** Tests that kill -9 loses no message to a stream of Redis, and repeats only those that were in flight. */
// needs: redis, build
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { afterAll, expect, it } from "vitest";
import { startRedis } from "../servers/redis.ts";
import { loseNothingInKills } from "./broker-kills.ts";

const KILLS = 4;

const folder = mkdtempSync(join(tmpdir(), "redrive-broker-kill-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it(`loses no message in ${KILLS} kills`, { timeout: 600_000 }, async () => {
  const server = await startRedis({ appendfsync: "everysec" });
  const redis = new Redis(server.url);
  const { host } = new URL(server.url);
  await loseNothingInKills(folder, `redis-stream://${host}/0?stream=orders`, KILLS, async () => {
    const entries = await redis.xrange("orders", "-", "+");
    return entries.map(([, [name, value = ""]]) => {
      expect(name).toBe("idempotency-key");
      return value;
    });
  });
  redis.disconnect();
  await server.stop();
});
