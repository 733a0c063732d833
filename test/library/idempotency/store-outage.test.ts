/**
 * The store of keys is cut off between the effect of a handler and its outcome: a real PostgreSQL behind a
 * proxy, and keys in virtual time. The handler charges in a database of its own, which stays up.
 */
// needs: postgres
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { type VirtualClock, virtualClock } from "@redrive/core";
import express from "express";
import { Pool } from "pg";
import { forExpress, type IdempotencyEvent, idempotency, postgresStore } from "redrive/idempotency";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type PostgresServer, startPostgres } from "../../servers/postgres.ts";
import { TcpProxy } from "../../servers/tcp-proxy.ts";

const LEASE_MS = 30_000;

let server: PostgresServer;
const closers: (() => unknown)[] = [];
beforeAll(async () => {
  server = await startPostgres();
});
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});
afterAll(async () => {
  await server.stop();
});

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** A process that reaches the store over its own proxy. */
async function startShop(
  clock: VirtualClock,
  charge: () => void,
  isCut: (proxy: TcpProxy) => void,
) {
  const proxy = new TcpProxy(Number(new URL(server.url).port));
  await proxy.listen();
  const url = new URL(server.url);
  url.port = String(proxy.port);
  const pool = new Pool({ connectionString: url.href });
  pool.on("error", () => undefined);
  const store = postgresStore(pool, { clock });
  await store.migrate();
  const events: IdempotencyEvent[] = [];
  const keys = idempotency<express.Request>({
    store,
    scope: () => "shop",
    clock,
    leaseMs: LEASE_MS,
    onEvent: (event) => events.push(event),
  });
  const app = express();
  app.post("/charges", forExpress(keys), (_request, response) => {
    charge();
    isCut(proxy);
    response.status(201).send("charged");
  });
  const listener = app.listen(0, "127.0.0.1");
  await once(listener, "listening");
  closers.push(
    () => proxy.close(),
    () => pool.end(),
    () => once(listener.close(), "close"),
    () => listener.closeAllConnections(),
  );
  const target = `http://127.0.0.1:${(listener.address() as AddressInfo).port}/charges`;
  const post = async (key: string) => {
    const headers = { "idempotency-key": key };
    const response = await fetch(target, { method: "POST", headers });
    const isReplayed = response.headers.get("idempotent-replayed") === "true";
    return { status: response.status, text: await response.text(), isReplayed };
  };
  const seen = (type: string) => events.some((event) => event.type === type);
  return { proxy, post, keys, events, seen };
}

/**
 * Lets time pass until it is so. Many turns belong to a little time: real connections are there long before
 * a time limit ends.
 */
async function passUntil(clock: VirtualClock, isSo: () => boolean): Promise<void> {
  while (!isSo()) {
    for (let turns = 0; turns < 20; turns++) await turn();
    await clock.advance(5);
  }
}

/** Time passes only once the store is cut off. */
async function afterCut<T>(clock: VirtualClock, promise: Promise<T>, isCut: () => boolean) {
  let isSettled = false;
  const settle = () => {
    isSettled = true;
  };
  promise.then(settle, settle);
  while (!isCut()) await turn();
  await passUntil(clock, () => isSettled);
  return await promise;
}

const CHARGED = { status: 201, text: "charged" };

test.each(["refused", "silent"] as const)(
  "with connections that are %s for ten leases: one charge, and its outcome is stored afterwards",
  async (state) => {
    const clock = virtualClock(Date.now());
    let charges = 0;
    const charge = () => charges++;
    const here = await startShop(clock, charge, (proxy) => {
      proxy.state = state;
    });
    const first = afterCut(clock, here.post(state), () => charges > 0);
    expect(await first).toMatchObject({ ...CHARGED, isReplayed: false });
    expect(here.seen("store-failed")).toBe(true);
    await clock.advance(10 * LEASE_MS);
    // The process answers from its memory while it waits for the store.
    expect(await here.post(state)).toEqual({ ...CHARGED, isReplayed: true });
    here.proxy.state = "open";
    await passUntil(clock, () => here.seen("stored"));
    expect(await here.keys.drain()).toBe(0);
    const elsewhere = await startShop(clock, charge, () => undefined);
    expect(await elsewhere.post(state)).toEqual({ ...CHARGED, isReplayed: true });
    expect(charges).toBe(1);
  },
);

test("with a confirmation that is lost: the outcome is stored once", async () => {
  const clock = virtualClock(Date.now());
  let charges = 0;
  const here = await startShop(
    clock,
    () => charges++,
    (proxy) => proxy.cutNextResponse(),
  );
  const first = afterCut(clock, here.post("lost"), () => here.proxy.cuts > 0);
  expect(await first).toMatchObject(CHARGED);
  expect(here.proxy.cuts).toBe(1);
  await passUntil(clock, () => here.seen("stored"));
  expect(here.events.filter(({ type }) => type === "stored")).toHaveLength(1);
  expect(await here.post("lost")).toEqual({ ...CHARGED, isReplayed: true });
  expect(charges).toBe(1);
});

test("for less than a lease: no other process takes the key over", async () => {
  const clock = virtualClock(Date.now());
  let charges = 0;
  const charge = () => charges++;
  const here = await startShop(clock, charge, (proxy) => {
    proxy.state = "refused";
  });
  const elsewhere = await startShop(clock, charge, () => undefined);
  await afterCut(clock, here.post("short"), () => charges > 0);
  await clock.advance(5000);
  expect((await elsewhere.post("short")).status).toBe(409);
  here.proxy.state = "open";
  await passUntil(clock, () => here.seen("stored"));
  expect(await elsewhere.post("short")).toEqual({ ...CHARGED, isReplayed: true });
  expect(charges).toBe(1);
});
