/** Tests of connections: slow, malformed or excessive ones are closed, and others are child. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { createApp } from "@redrive/service/http";
import { afterEach, describe, expect, test } from "vitest";
import { openTestServer, type TestServer } from "./test-server.ts";

let server: TestServer;
afterEach(() => server.close());

const HEAD = "POST /retry-tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

describe("row 9: a body that does not arrive", () => {
  test("chunked without an end: 408 and the connection is closed", async () => {
    server = await openTestServer({ headersTimeoutMs: 200, requestTimeoutMs: 300 });
    const bytes = `${HEAD}Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n`;
    const { status, json } = await server.rawCall(bytes, { until: "close" });
    expect([status, json.code]).toEqual([408, "REQUEST_TIMEOUT"]);
  });

  test("shorter than announced: 408 and the connection is closed", async () => {
    server = await openTestServer({ headersTimeoutMs: 200, requestTimeoutMs: 300 });
    const { status } = await server.rawCall(`${HEAD}Content-Length: 100\r\n\r\n{}`, {
      until: "close",
    });
    expect(status).toBe(408);
  });

  test("of an upload that makes no progress: 408 and the connection is closed", async () => {
    server = await openTestServer({ headersTimeoutMs: 200, requestTimeoutMs: 300 });
    const head = `POST /forward HTTP/1.1\r\nHost: localhost\r\nRedrive-Target: ${server.target.url}\r\n`;
    const { status } = await server.rawCall(`${head}Content-Length: 100\r\n\r\nx`, {
      until: "close",
    });
    expect(status).toBe(408);
  });

  test("longer than announced: the rest is not read as a request", async () => {
    server = await openTestServer();
    const { text } = await server.rawCall(`${HEAD}Content-Length: 2\r\n\r\n{}GARBAGE\r\n\r\n`, {
      until: "close",
    });
    expect(text).toContain("INVALID_REQUEST");
  });
});

describe("row 58: idle and slow sockets", () => {
  test("are closed, and others are child meanwhile", async () => {
    server = await openTestServer({ headersTimeoutMs: 1000, requestTimeoutMs: 1500 });
    const sockets: Socket[] = [];
    for (let n = 0; n < 2000; n++) {
      const socket = connect(server.port, "127.0.0.1");
      socket.on("error", () => {});
      socket.resume();
      sockets.push(socket);
      if (n % 200 === 199) await once(socket, "connect");
    }
    const slow = sockets[0];
    slow?.write("GET / HT");
    const health = await server.call({ method: "GET", path: "/healthz" });
    expect(health.status).toBe(200);
    await Promise.all(sockets.map((socket) => socket.closed || once(socket, "close")));
  });

  test("the default limits: 10 s for headers, an hour for an upload, 5 s idle, 100 headers", async () => {
    server = await openTestServer();
    const { server: http } = createApp(server.redrive);
    const { headersTimeout, requestTimeout, keepAliveTimeout, maxHeadersCount, maxConnections } =
      http;
    expect([headersTimeout, requestTimeout, keepAliveTimeout]).toEqual([10_000, 3_600_000, 5000]);
    expect([maxHeadersCount, maxConnections]).toEqual([100, 10_000]);
  });

  test("headers over 16 KiB are rejected", async () => {
    server = await openTestServer();
    const huge = `GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ${"v".repeat(20_000)}\r\n\r\n`;
    expect((await server.rawCall(huge)).status).toBe(400);
  });
});

test("row 59: data after a rejected request on its connection is not read", async () => {
  server = await openTestServer();
  const smuggled = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const { status, text } = await server.rawCall(
    `${HEAD}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`,
    { until: "close" },
  );
  expect(status).toBe(400);
  expect(text).not.toContain('"ok"');
});

test("row 53: CONNECT is rejected", async () => {
  server = await openTestServer();
  const { status } = await server.rawCall("CONNECT example.com:80 HTTP/1.1\r\nHost: x\r\n\r\n", {
    until: "close",
  });
  expect(status).not.toBe(200);
});
