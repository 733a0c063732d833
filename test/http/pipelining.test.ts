/** Tests of pipelining: a client may send requests ahead, up to a limit, and gets all responses. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { createApp, listenApp } from "@redrive/service/http";
import { afterEach, describe, expect, test } from "vitest";
import { endings, openTestServer, type TestServer } from "./test-server.ts";

let server: TestServer;
afterEach(() => server.close());

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;

/** Sends the bytes at once; resolves with the statuses when `count` have arrived or it is closed. */
async function statusesOf(bytes: string, count: number): Promise<string[]> {
  const socket = connect(server.port, "127.0.0.1", () => socket.write(bytes));
  const statuses = await readStatuses(socket, count);
  socket.destroy();
  return statuses;
}

async function readStatuses(socket: Socket, count: number): Promise<string[]> {
  let text = "";
  const found = () => [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status = ""]) => status);
  socket.on("error", () => {});
  return new Promise((resolve) => {
    socket.on("close", () => resolve(found()));
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      if (found().length >= count) resolve(found());
    });
  });
}

describe("requests that a client sends ahead", () => {
  test("get their responses in order, whatever their size", async () => {
    server = await openTestServer();
    const paths = ["/healthz", "/openapi.json", "/nowhere", "/docs", "/retry-tasks?limit=0"];
    const bytes = paths.map(get).join("").repeat(20);
    const expected = new Array(20).fill(["200", "200", "404", "200", "400"]).flat();
    expect(await statusesOf(bytes, 100)).toEqual(expected);
  });

  test("are answered behind one that waits for its task", async () => {
    server = await openTestServer();
    const release = server.target.hold();
    const body = JSON.stringify({ targetUrl: server.target.url });
    const head =
      "POST /retry-tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    const waiting = `${head}Prefer: wait=30\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    const ended = endings(server.redrive, 3);
    const statuses = statusesOf(waiting.repeat(3) + get("/healthz").repeat(60), 63);
    // Another connection is not affected.
    expect((await server.call({ method: "GET", path: "/healthz" })).status).toBe(200);
    release();
    await ended;
    expect(await statuses).toEqual(new Array(63).fill("200"));
  });

  test("close the connection if there are too many, and others are served", async () => {
    server = await openTestServer();
    const socket = connect(server.port, "127.0.0.1", () => socket.write(get("/docs").repeat(500)));
    const statuses = await readStatuses(socket, 500);
    expect(statuses.length).toBeLessThan(500);
    expect(await statusesOf(get("/healthz"), 1)).toEqual(["200"]);
  });
});

const [own] = Object.values(networkInterfaces())
  .flatMap((all) => all ?? [])
  .filter(({ internal, family }) => !internal && family === "IPv4");

// skipped: a machine without a network has no address that is not loopback
test.skipIf(own === undefined)("a remote address has a limit of connections", async () => {
  server = await openTestServer();
  const app = createApp(server.redrive, { insecureNoAuth: true, maxConnectionsPerAddress: 2 });
  const url = new URL(await listenApp(app, { host: "0.0.0.0", port: 0 }));
  const open = (host: string) => connect(Number(url.port), host);
  const remote = [open(own?.address ?? ""), open(own?.address ?? "")];
  await Promise.all(remote.map((socket) => once(socket, "connect")));
  const third = open(own?.address ?? "");
  expect(await readStatuses(third, 2)).toEqual(["429"]);
  const local = open("127.0.0.1");
  local.write(get("/healthz"));
  expect(await readStatuses(local, 1)).toEqual(["200"]);
  for (const socket of [...remote, third, local]) socket.destroy();
  await app.close();
});
