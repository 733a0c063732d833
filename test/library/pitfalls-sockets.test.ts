/**
 * Pitfalls that appear only on the wire, with a test that shows the library avoids each one. The
 * others are next to the library, in `pitfalls.test.ts`.
 */
import { createFetch } from "redrive";
import { afterEach, describe, expect, test } from "vitest";
import { type ScriptedServer, script, scriptedServer } from "./scripted-server.ts";

const servers: ScriptedServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function failingOnce(): Promise<ScriptedServer> {
  const server = await scriptedServer(script({ status: 503 }, { status: 200 }));
  servers.push(server);
  return server;
}

const FAST = { initialDelayMs: 1 } as const;

describe("1. body replay", () => {
  test("a PUT of text is never retried with a length of 0", async () => {
    const server = await failingOnce();
    const response = await createFetch(FAST)(server.origin, { method: "PUT", body: "precious" });
    expect(response.status).toBe(200);
    const sent = server.received.map(({ headers, body }) => [headers["content-length"], `${body}`]);
    expect(sent).toEqual([
      ["8", "precious"],
      ["8", "precious"],
    ]);
  });

  test("a PUT of a stream never ends with 200 and an empty body", async () => {
    const server = await failingOnce();
    const body = new Blob(["precious"]).stream();
    const response = await createFetch(FAST)(server.origin, { method: "PUT", body });
    expect(response.status).toBe(503);
    expect(server.received.map((one) => String(one.body))).toEqual(["precious"]);
  });
});

test("10. timers: no timer keeps the process alive after the last call", async () => {
  const server = await failingOnce();
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  const before = timers();
  await (await createFetch(FAST)(server.origin)).text();
  await new Promise((resolve) => setImmediate(resolve));
  expect(timers()).toBeLessThanOrEqual(before);
});
