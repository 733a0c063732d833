/**
 * Pitfalls that show only on the wire, each shown not to be here. The others are beside the library
 * in `pitfalls.test.ts`.
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
  test("a PUT of text is never sent again with a length of 0", async () => {
    const server = await failingOnce();
    const response = await createFetch(FAST)(server.origin, { method: "PUT", body: "precious" });
    expect(response.status).toBe(200);
    const sent = server.received.map(({ headers, body }) => [headers["content-length"], `${body}`]);
    expect(sent).toEqual([
      ["8", "precious"],
      ["8", "precious"],
    ]);
  });

  test("a PUT of a stream never ends in 200 with nothing stored", async () => {
    const server = await failingOnce();
    const body = new Blob(["precious"]).stream();
    const response = await createFetch(FAST)(server.origin, { method: "PUT", body });
    expect(response.status).toBe(503);
    expect(server.received.map((one) => String(one.body))).toEqual(["precious"]);
  });
});

test("10. timers: nothing keeps the process once calls are done", async () => {
  const server = await failingOnce();
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  const before = timers();
  await (await createFetch(FAST)(server.origin)).text();
  await new Promise((resolve) => setImmediate(resolve));
  expect(timers()).toBeLessThanOrEqual(before);
});
