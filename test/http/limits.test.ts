/** Limits: who asks for too much is told when to come back, and a store in trouble is told honestly. */

import { virtualClock } from "@redrive/core";
import { memoryStore, type Store, StoreBrokenError, StoreFullError } from "@redrive/service";
import { createKey, memoryKeyStore } from "@redrive/service/http";
import { afterEach, describe, expect, test } from "vitest";
import { type Answer, type Front, openFront } from "./test-server.ts";

let front: Front;
afterEach(() => front.close());

let drawn = 0;
const fill = (bytes: Uint8Array) => {
  bytes.set(bytes.map((_, at) => (drawn++ * 11 + at) % 256));
};

test("row 60: a key that sends too much gets 429, others are not touched", async () => {
  const keys = memoryKeyStore();
  const [noisy, quiet] = ["a", "b"].map((tenantId) => {
    const { key, record } = createKey(fill, { tenantId, scopes: ["admin"], now: 0 });
    keys.add(record);
    return { authorization: `Bearer ${key}` };
  });
  // All in one instant, however long the machine takes over them.
  front = await openFront({ keys, requestsPerSecond: 20, frontClock: virtualClock() });
  const ask = (headers = {}) => front.call({ method: "GET", path: "/retry-tasks", headers });
  const answers = await Promise.all(Array.from({ length: 100 }, () => ask(noisy)));
  const refused = answers.filter(({ status }) => status === 429);
  expect(refused).toHaveLength(80);
  expect(refused[0]?.headers["retry-after"]).toBe("1");
  expect(refused[0]?.json.code).toBe("TOO_MANY_REQUESTS");
  expect((await ask(quiet)).status).toBe(200);
});

test("row 61: a full queue takes no more, with 429", async () => {
  front = await openFront({ maxWaiting: 3 });
  await front.redrive.pause(front.target.origin);
  const create = () => front.call({ body: { targetUrl: front.target.url } });
  const answers: Answer[] = [];
  // The count may be a second old.
  while (answers.at(-1)?.status !== 429) answers.push(await create());
  expect(answers.at(-1)?.json.code).toBe("QUEUE_FULL");
  expect(answers.at(-1)?.headers["retry-after"]).toBe("1");
});

describe("a store in trouble", () => {
  const withCommit = (commit: (inner: Store["commit"]) => Store["commit"]): Store => {
    const inner = memoryStore();
    return { ...inner, commit: commit(inner.commit) };
  };

  test("row 61, I3: a full disk is 507, and goes away by itself", async () => {
    let isFull = false;
    front = await openFront({
      store: withCommit((inner) => async (batch) => {
        if (isFull && batch.creates.length > 0) throw new StoreFullError("disk full: /secret/path");
        return inner(batch);
      }),
    });
    const create = () => front.call({ body: { targetUrl: front.target.url } });
    expect((await create()).status).toBe(202);
    isFull = true;
    const { status, json, headers, text } = await create();
    expect([status, json.code, headers["retry-after"]]).toEqual([507, "STORE_FULL", "10"]);
    expect(text).not.toContain("/secret/path");
    isFull = false;
    expect((await create()).status).toBe(202);
  });

  test("I4: after a store that is broken nothing is taken any more", async () => {
    let isBroken = false;
    front = await openFront({
      onFatal: () => {},
      store: withCommit((inner) => async (batch) => {
        if (isBroken) throw new StoreBrokenError("fsync failed");
        return inner(batch);
      }),
    });
    const create = () => front.call({ body: { targetUrl: front.target.url } });
    const ready = async () => (await front.call({ method: "GET", path: "/readyz" })).status;
    await create();
    expect(await ready()).toBe(200);
    isBroken = true;
    expect((await create()).status).toBe(503);
    isBroken = false;
    const { status, json } = await create();
    expect([status, json.code]).toEqual([503, "SERVICE_STOPPED"]);
    expect(await ready()).toBe(503);
    expect((await front.call({ method: "GET", path: "/healthz" })).status).toBe(200);
  });

  test("I28: a store that hangs is 503 within 5 s", async () => {
    const frontClock = virtualClock();
    let isAsked = () => {};
    let hung: Promise<void> | undefined;
    let free = () => {};
    front = await openFront({
      frontClock,
      store: withCommit((inner) => async (batch) => {
        if (batch.creates.length > 0) isAsked();
        await hung;
        return inner(batch);
      }),
    });
    const create = () => front.call({ body: { targetUrl: front.target.url } });
    await create();
    hung = new Promise((resolve) => {
      free = resolve;
    });
    const asked = new Promise<void>((resolve) => {
      isAsked = resolve;
    });
    const answer = create();
    await asked;
    await frontClock.advance(5000);
    free();
    const { status, json, headers } = await answer;
    expect([status, json.code, headers["retry-after"]]).toEqual([503, "STORE_UNAVAILABLE", "1"]);
  });
});
