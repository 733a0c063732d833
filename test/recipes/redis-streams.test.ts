/** Tests the recipe for Redis Streams, with a real Redis and a payment API that fails. */
// needs: redis
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Redis } from "ioredis";
import type { Worker } from "redrive/consume";
import { expect, test } from "vitest";
import { until } from "../consume/received.ts";
import { startRedis } from "../servers/redis.ts";
import { runRecipe } from "./recipe.ts";

test("charges each order once, retries failures and keeps what cannot be charged", async () => {
  const server = await startRedis();
  const charged: string[] = [];
  const keys = new Map<string, number>();
  const api = createServer(async (request, response) => {
    const key = String(request.headers["idempotency-key"]);
    let order = "";
    for await (const chunk of request.setEncoding("utf8")) order += chunk;
    keys.set(key, (keys.get(key) ?? 0) + 1);
    if (order === "impossible") response.statusCode = 422;
    else if (order === "busy" && keys.get(key) === 1) response.statusCode = 503;
    else charged.push(key);
    response.end();
  }).listen(0, "127.0.0.1");
  await once(api, "listening");
  const { worker } = await runRecipe<{ worker: Worker }>("redis-streams", {
    REDIS_URL: server.url,
    PAYMENT_API: `http://127.0.0.1:${(api.address() as AddressInfo).port}`,
  });
  const redis = new Redis(server.url);
  const send = (id: string, order: string) => redis.xadd("orders", "*", "id", id, "order", order);
  await send("order-1", "good");
  await send("order-2", "busy");
  await send("order-3", "impossible");
  await until(() => charged.length === 2);
  await until(async () => (await redis.xpending("orders", "billing"))[0] === 0);
  await send("order-1", "good");
  await until(async () => (await redis.xpending("orders", "billing"))[0] === 0);
  await until(async () => (await redis.xlen("{orders}:billing:dead")) === 1);
  await until(async () => (await redis.zcard("{orders}:billing:delayed")) === 0);
  await worker.stop();
  expect(charged).toEqual(["order-1", "order-2"]);
  const [dead] = await redis.xrange("{orders}:billing:dead", "-", "+");
  expect(dead?.[1]).toEqual(expect.arrayContaining(["order-3", "not-retryable"]));
  redis.disconnect();
  api.close();
  await server.stop();
});
