/** A store that fails: every answer that says so can be found in the log, those of a batch too. */

import { memoryStore, type Store } from "@redrive/service";
import { afterEach, expect, test } from "vitest";
import { type Front, openFront } from "./front.ts";

let front: Front | undefined;
afterEach(() => front?.close());

test("the log has each under the id that the answer brings", async () => {
  const memory = memoryStore();
  let isDown = false;
  const commit: Store["commit"] = (batch) =>
    isDown ? Promise.reject(new Error("the disk is on fire")) : memory.commit(batch);
  const store = { ...memory, commit };
  const lines: string[] = [];
  const logger = { level: "error", stream: { write: (line: string) => void lines.push(line) } };
  front = await openFront({ store, logger });
  const { call, target } = front;
  await call({ body: { targetUrl: target.url } });
  isDown = true;
  const logged = (id: unknown) => lines.filter((line) => JSON.parse(line).reqId === id).join("");

  const one = await call({ body: { targetUrl: target.url } });
  expect(one.status).toBe(503);
  expect(one.text).not.toContain("on fire");
  expect(logged(one.headers["x-request-id"])).toContain("on fire");

  const many = await call({ path: "/retry-tasks/batch", body: [{ targetUrl: target.url }, {}] });
  expect(many.json.results.map(({ status }: { status: number }) => status)).toEqual([503, 400]);
  expect(many.text).not.toContain("on fire");
  expect(logged(many.headers["x-request-id"])).toContain("on fire");
  isDown = false;
});
