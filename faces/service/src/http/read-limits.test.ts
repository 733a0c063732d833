/** Tests that a read ends with its request: when its time is over, or when its caller has gone. */
import { connect } from "node:net";
import { virtualClock } from "@redrive/core";
import { afterEach, expect, it } from "vitest";
import { createRedrive } from "../create-redrive.ts";
import { serviceError } from "../model/errors.ts";
import type { Store } from "../model/store.ts";
import type { Page, TaskPage } from "../model/task-query.ts";
import { memoryStore } from "../stores/memory/memory-store.ts";
import { createApp } from "./server.ts";

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

function deferred<T>() {
  let resolve: (value: T) => void = () => {};
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve: (value: T) => resolve(value) };
}

/** A service whose lists answer only when their signal is aborted. */
async function open() {
  const clock = virtualClock();
  const inner = memoryStore();
  const asked = deferred<Page>();
  const ended = deferred<unknown>();
  const list = (_tenantId: string, _filter: object, page: Page): Promise<TaskPage> => {
    asked.resolve(page);
    return new Promise((_, reject) => {
      page.signal?.addEventListener("abort", () => {
        ended.resolve(page.signal?.reason);
        reject(page.signal?.reason);
      });
    });
  };
  const store: Store = { ...inner, query: { ...inner.query, list } };
  const redrive = await createRedrive({ store });
  const app = createApp(redrive, { clock });
  await app.ready();
  closers.push(async () => {
    await app.close();
    await redrive.stop(0);
  });
  return { clock, app, asked: asked.promise, ended: ended.promise };
}

it.each(["/retry-tasks", "/dead-letters", "/dead-letters?group=true"])(
  "GET %s stops reading when its time is over",
  async (url) => {
    const { clock, app, asked, ended } = await open();
    const response = app.inject({ url });
    await asked;
    await clock.advance(4500);
    expect((await response).statusCode).toBe(503);
    expect(await ended).toMatchObject({ code: "STORE_UNAVAILABLE" });
  },
);

it("DELETE /dead-letters stops reading when the time of a page is over", async () => {
  const { clock, app, asked, ended } = await open();
  const response = app.inject({ method: "DELETE", url: "/dead-letters?createdFrom=0" });
  await asked;
  await clock.advance(4500);
  expect((await response).statusCode).toBe(503);
  expect(await ended).toMatchObject({ code: "STORE_UNAVAILABLE" });
});

it("a read ends when its caller closes the connection", async () => {
  const { app, asked, ended } = await open();
  await app.listen({ host: "127.0.0.1", port: 0 });
  const address = app.server.address();
  const port = typeof address === "object" ? (address?.port ?? 0) : 0;
  const socket = connect(port, "127.0.0.1");
  socket.write(`GET /retry-tasks HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n\r\n`);
  expect((await asked).signal?.aborted).toBe(false);
  socket.destroy();
  expect(await ended).toMatchObject({ message: "the caller closed the connection" });
});

it("a store that refuses a list answers 429 and has not failed", async () => {
  const inner = memoryStore();
  const list = () => Promise.reject(serviceError("TOO_MANY_REQUESTS", "too many lists"));
  const redrive = await createRedrive({ store: { ...inner, query: { ...inner.query, list } } });
  const app = createApp(redrive);
  closers.push(async () => {
    await app.close();
    await redrive.stop(0);
  });
  const failures: string[] = [];
  redrive.onEvent(({ type }) => failures.push(type));
  const { statusCode, headers } = await app.inject({ url: "/retry-tasks" });
  expect([statusCode, headers["retry-after"]]).toEqual([429, expect.any(String)]);
  expect(failures).toEqual([]);
});
