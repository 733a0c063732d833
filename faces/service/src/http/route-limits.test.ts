/** Tests of route limits: every route of the API responds in time although the store does not. */
import { virtualClock } from "@redrive/core";
import type { InjectOptions } from "fastify";
import { expect, it } from "vitest";
import { createRedrive } from "../create-redrive.ts";
import type { Store } from "../model/store.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import { createApp } from "./server.ts";

/** What a route needs to reach the store; all other routes are called without parameters. */
const BODIES: Readonly<Record<string, object>> = {
  "POST /retry-tasks": { targetUrl: "http://127.0.0.1:7999/" },
  "POST /retry-tasks/batch": [{ targetUrl: "http://127.0.0.1:7999/" }],
  "POST /retry-policies": { policyId: "mine" },
  "PUT /retry-policies/{policyId}": {},
  "PUT /destinations/{name}": {},
  "POST /destinations/{name}/enable": { targetUrl: "http://127.0.0.1:7999/" },
  "POST /redrives": { filter: {} },
  "POST /retry-tasks/cancel": { taskIds: ["x"] },
  "POST /retry-tasks/retry": { taskIds: ["x"] },
  "POST /dead-letters/discard": { taskIds: ["x"] },
  "POST /keys": { name: "x", scopes: ["admin"] },
};

const HEADERS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "POST /forward": { "redrive-target": "http://127.0.0.1:7999/" },
};

/** These routes do not need the store. */
const WITHOUT_STORE: Readonly<Record<string, unknown>> = {
  "GET /healthz": { status: "ok" },
  // It refuses an empty body.
  "POST /bodies": 400,
  // It needs a body with a key.
  "POST /ui/session": 400,
  "GET /ui/session": expect.objectContaining({ tenantId: "default" }),
  "DELETE /ui/session": 204,
  "GET /destinations/{name}/history": expect.objectContaining({ limits: [] }),
  "GET /keys": { isRequired: false, isChangeable: false, keys: [] },
  // It needs a body. Without a simulator it does not ask the store.
  "POST /simulations": 400,
  // The service has no keys.
  "POST /keys": 403,
  "DELETE /keys/{keyId}": 404,
  // The service has no alerts.
  "GET /alerts": expect.objectContaining({ url: null }),
  "POST /alerts/test": 404,
};

/** Routes that respond for each task. */
const PER_TASK: Readonly<Record<string, object>> = {
  "POST /retry-tasks/batch": { accepted: 0, refused: 1, results: [{ status: 503 }] },
  "POST /retry-tasks/cancel": { done: 0, refused: [{ code: "STORE_UNAVAILABLE" }] },
  "POST /retry-tasks/retry": { done: 0, refused: [{ code: "STORE_UNAVAILABLE" }] },
};

/** Queries that a route requires. */
const QUERIES: Readonly<Record<string, string>> = {
  "DELETE /dead-letters": "?createdFrom=0",
  "GET /retry-tasks/suggestions": "?field=label",
};

/** Its response does not end. `events.test.ts` tests it. */
const ENDLESS = "GET /events";

/** Operations that the engine calls by itself. */
const OWN = ["renew", "sweep", "lapsed", "claimsOf"];

/** A store that can stop responding and later respond to everything. */
function hangingStore() {
  let asked = () => {};
  let isHanging = false;
  const held: (() => void)[] = [];
  const hanging = <Part extends object>(part: Part): Part => {
    const entries = Object.entries(part).map(([name, value]) => {
      if (typeof value !== "function" || OWN.includes(name)) return [name, value];
      const ask = async (...args: readonly unknown[]) => {
        if (!isHanging) return value(...args);
        asked();
        return new Promise((resolve) => held.push(() => resolve(value(...args))));
      };
      return [name, ask];
    });
    return Object.fromEntries(entries) as Part;
  };
  const inner: Store = memoryStore();
  const { query, documents } = inner;
  return {
    store: { ...hanging(inner), query: hanging(query), documents: hanging(documents) },
    hang(): Promise<void> {
      isHanging = true;
      return new Promise((resolve) => {
        asked = resolve;
      });
    },
    release(): void {
      isHanging = false;
      for (const answer of held.splice(0)) answer();
    },
  };
}

/** Opens a service with its HTTP server. */
async function open() {
  const clock = virtualClock();
  const { store, hang, release } = hangingStore();
  const redrive = await createRedrive({ store });
  const app = createApp(redrive, { clock });
  const close = async () => {
    release();
    await app.close();
    await redrive.stop(0);
  };
  await app.ready();
  return { clock, app, hang, close };
}

async function routes(): Promise<readonly string[]> {
  const { app, close } = await open();
  const { paths = {} } = app.swagger() as { paths?: Record<string, object> };
  await close();
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
}

/**
 * The response of a route within 5 s while the store does not respond: the status, or the content
 * of a 200.
 */
async function answerOf(route: string): Promise<unknown> {
  const { clock, app, hang, close } = await open();
  const [method, path = ""] = route.split(" ");
  const url = path.replaceAll(/\{\w+\}/gu, "x");
  const asked = hang();
  const answer = app.inject({
    method: method as NonNullable<InjectOptions["method"]>,
    url: `${url}${QUERIES[route] ?? ""}`,
    headers: { prefer: "wait=20", ...HEADERS[route] },
    ...(route in BODIES && { payload: BODIES[route] as object }),
  });
  await Promise.race([asked, answer]);
  await clock.advance(5000);
  const { statusCode, body } = await answer;
  await close();
  return statusCode === 200 ? JSON.parse(body) : statusCode;
}

const all = (await routes()).filter((route) => route !== ENDLESS);

it("covers every route", () => {
  expect(all.length).toBeGreaterThan(20);
});

it.each(all)("%s responds in time although the store does not", async (route) => {
  const answer = await answerOf(route);
  if (route in WITHOUT_STORE) expect(answer).toEqual(WITHOUT_STORE[route]);
  else if (route in PER_TASK) expect(answer).toMatchObject(PER_TASK[route] ?? {});
  else expect(answer).toBe(503);
});
