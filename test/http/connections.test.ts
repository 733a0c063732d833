/** Connections: those that dawdle, lie or come in thousands are closed, and others are served. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { createApp } from "@redrive/service/http";
import { afterEach, describe, expect, test } from "vitest";
import { type Front, openFront } from "./test-server.ts";

let front: Front;
afterEach(() => front.close());

const HEAD = "POST /retry-tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

describe("row 9: a body that does not come", () => {
  test("chunked without an end: 408 and the connection is closed", async () => {
    front = await openFront({ headersTimeoutMs: 200, requestTimeoutMs: 300 });
    const bytes = `${HEAD}Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n`;
    const { status, json } = await front.rawCall(bytes, { until: "close" });
    expect([status, json.code]).toEqual([408, "REQUEST_TIMEOUT"]);
  });

  test("shorter than announced: 408 and the connection is closed", async () => {
    front = await openFront({ headersTimeoutMs: 200, requestTimeoutMs: 300 });
    const { status } = await front.rawCall(`${HEAD}Content-Length: 100\r\n\r\n{}`, {
      until: "close",
    });
    expect(status).toBe(408);
  });

  test("longer than announced: the rest is no request", async () => {
    front = await openFront();
    const { text } = await front.rawCall(`${HEAD}Content-Length: 2\r\n\r\n{}GARBAGE\r\n\r\n`, {
      until: "close",
    });
    expect(text).toContain("INVALID_REQUEST");
  });
});

describe("row 58: idle and slow sockets", () => {
  test("are closed, and others are served meanwhile", async () => {
    front = await openFront({ headersTimeoutMs: 1000, requestTimeoutMs: 1500 });
    const sockets: Socket[] = [];
    for (let n = 0; n < 2000; n++) {
      const socket = connect(front.port, "127.0.0.1");
      socket.on("error", () => {});
      socket.resume();
      sockets.push(socket);
      if (n % 200 === 199) await once(socket, "connect");
    }
    const slow = sockets[0];
    slow?.write("GET / HT");
    const served = await front.call({ method: "GET", path: "/healthz" });
    expect(served.status).toBe(200);
    await Promise.all(sockets.map((socket) => socket.closed || once(socket, "close")));
  });

  test("the limits that ship: 10 s for headers, 30 s in all, 5 s idle, 100 headers", async () => {
    front = await openFront();
    const { server } = createApp(front.redrive);
    const { headersTimeout, requestTimeout, keepAliveTimeout, maxHeadersCount, maxConnections } =
      server;
    expect([headersTimeout, requestTimeout, keepAliveTimeout]).toEqual([10_000, 30_000, 5000]);
    expect([maxHeadersCount, maxConnections]).toEqual([100, 10_000]);
  });

  test("headers over 16 KiB are refused", async () => {
    front = await openFront();
    const huge = `GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ${"v".repeat(20_000)}\r\n\r\n`;
    expect((await front.rawCall(huge)).status).toBe(400);
  });
});

test("row 59: what follows a refused request on its connection is not read", async () => {
  front = await openFront();
  const smuggled = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const { status, text } = await front.rawCall(
    `${HEAD}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`,
    { until: "close" },
  );
  expect(status).toBe(400);
  expect(text).not.toContain('"ok"');
});

test("row 53: CONNECT is refused", async () => {
  front = await openFront();
  const { status } = await front.rawCall("CONNECT example.com:80 HTTP/1.1\r\nHost: x\r\n\r\n", {
    until: "close",
  });
  expect(status).not.toBe(200);
});
