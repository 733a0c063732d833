/** What handlers of `node:http` do with a response works as usual while the response is held. */
import { once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from "node:http";
import { connect as connectHttp2, createServer as createHttp2Server } from "node:http2";
import { type AddressInfo, connect, type Server } from "node:net";
import { pipeline as callbackPipeline, PassThrough, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { gunzipSync, gzipSync } from "node:zlib";
import {
  forNode,
  type IdempotencyOptions,
  idempotency,
  memoryStore,
  type NodeRequest,
  type NodeResponse,
  NotExecuted,
} from "redrive/idempotency";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

type Handler = (request: IncomingMessage, response: ServerResponse) => unknown;

function keysOf(more: Partial<IdempotencyOptions<NodeRequest>> = {}) {
  return idempotency<NodeRequest>({ store: memoryStore(), scope: () => "caller", ...more });
}

async function open(handler: Handler, around?: (held: RequestListener) => RequestListener) {
  const held = forNode(keysOf(), handler) as RequestListener;
  return await openListener(around === undefined ? held : around(held));
}

async function openListener(listener: RequestListener) {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return (key = "k", body = "{}", more: Record<string, string> = {}) =>
    fetch(`http://127.0.0.1:${port}/`, {
      method: "POST",
      headers: { ...(key && { "idempotency-key": key }), ...more },
      body,
    });
}

/** Sends a request twice and returns what both responses have in common, after checking that they agree. */
async function twice(handler: Handler, around?: (held: RequestListener) => RequestListener) {
  let runs = 0;
  const send = await open((request, response) => {
    runs++;
    return handler(request, response);
  }, around);
  const results: { status: number; headers: [string, string][]; body: string }[] = [];
  for (let times = 0; times < 2; times++) {
    const response = await send();
    const headers = [...response.headers].filter(
      ([name]) => !/^(date|connection|keep-alive|idempotent-replayed)$/.test(name),
    );
    results.push({ status: response.status, headers, body: await response.text() });
  }
  expect(results[1]).toEqual(results[0]);
  expect(runs).toBe(1);
  const [{ status, headers, body } = { status: 0, headers: [], body: "" }] = results;
  return { status, headers: Object.fromEntries(headers), body };
}

describe("writeHead", () => {
  test.each<[string, (response: ServerResponse) => void]>([
    ["with an object", (response) => response.writeHead(202, { "X-A": "1", "X-B": ["2", "3"] })],
    ["with a reason", (response) => response.writeHead(202, "Fine", { "X-A": "1", "X-B": "2, 3" })],
    [
      "with a flat list",
      (response) => response.writeHead(202, ["X-A", "1", "X-B", "2", "X-B", "3"]),
    ],
    [
      "after setHeader",
      (response) => {
        response.setHeader("X-A", "0");
        response.setHeader("X-B", ["2", "3"]);
        response.writeHead(202, { "x-a": 1 });
      },
    ],
    [
      "with a list of pairs",
      (response) => {
        const pairs = [
          ["X-A", "1"],
          ["X-B", "2"],
          ["X-B", "3"],
        ];
        response.writeHead(202, pairs as never);
      },
    ],
  ])("%s", async (_, writeHead) => {
    const result = await twice((_request, response) => {
      writeHead(response);
      response.end("ok");
    });
    expect(result.status).toBe(202);
    expect(result.headers).toMatchObject({ "x-a": "1", "x-b": "2, 3" });
  });
});

test("texts in other encodings, chunks that are used again, and callbacks", async () => {
  const called: string[] = [];
  const result = await twice((_request, response) => {
    const buffer = Buffer.from("one ");
    response.write(buffer, () => called.push("write"));
    buffer.fill("x");
    response.write("74776f20", "hex");
    response.write("é", "latin1", () => called.push("write 2"));
    response.end(" three", "utf8", () => called.push("end"));
  });
  expect(Buffer.from(result.body).toString("hex")).toContain(
    Buffer.from("one two ").toString("hex"),
  );
  expect(called).toEqual(["write", "write 2", "end"]);
});

test("to the handler the response looks sent", async () => {
  const seen: boolean[][] = [];
  const look = ({ headersSent, writableEnded }: ServerResponse) =>
    seen.push([headersSent, writableEnded]);
  let held: ServerResponse | undefined;
  const send = await open((_request, response) => {
    held = response;
    look(response);
    response.flushHeaders();
    look(response);
    response.write("a");
    response.end("b");
    look(response);
    // A second end does nothing, as usual.
    response.end("c");
  });
  expect(await (await send()).text()).toBe("ab");
  if (held !== undefined) look(held);
  expect(seen).toEqual([
    [false, false],
    [true, false],
    [true, true],
    [true, true],
  ]);
});

test("pipe and pipeline", async () => {
  const piped = await twice((_request, response) => {
    Readable.from(["a", "b", "c"]).pipe(response);
  });
  expect(piped.body).toBe("abc");
  const pipelined = await twice((_request, response) =>
    pipeline(Readable.from(["a", "b", "c"]), new PassThrough(), response),
  );
  expect(pipelined.body).toBe("abc");
});

test("a response that ends after its handler", async () => {
  const result = await twice((_request, response) => {
    setImmediate(() => response.end("later"));
  });
  expect(result.body).toBe("later");
});

/** A stream that fails after its first chunk. */
function failing(): Readable {
  return Readable.from(
    (async function* () {
      yield "half";
      throw new Error("disk");
    })(),
  );
}

test.each<[string, (response: ServerResponse) => void]>([
  ["pipeline", (response) => void callbackPipeline(failing(), response, () => undefined)],
  ["destroy", (response) => response.write("half") && response.destroy()],
])(
  "a response that is destroyed halfway (%s) has an unknown outcome, and is not run again",
  async (_name, respondHalf) => {
    let runs = 0;
    const send = await open((_request, response) => {
      runs++;
      respondHalf(response);
    });
    await expect(send()).rejects.toThrow();
    const again = await send();
    expect([again.status, runs]).toEqual([409, 1]);
    expect(await again.json()).toMatchObject({ code: "IDEMPOTENCY_OUTCOME_UNKNOWN" });
  },
);

describe("a handler that throws", () => {
  const silence = () => vi.spyOn(console, "error").mockImplementation(() => undefined);

  test("does not end the process: the client and its repetition get the same 500, and the log the error", async () => {
    const report = silence();
    const error = new Error("secret");
    const result = await twice(() => {
      throw error;
    });
    expect(result.status).toBe(500);
    expect(result.headers["content-type"]).toMatch(/^application\/problem\+json/);
    expect(JSON.parse(result.body)).toMatchObject({ code: "INTERNAL" });
    expect(result.body).not.toContain("secret");
    expect(report.mock.calls).toEqual([["redrive:", error]]);
  });

  test("after a part of its response gets nothing of that part to the client", async () => {
    silence();
    const result = await twice(async (_request, response) => {
      response.writeHead(201, { "x-a": "1" });
      response.write("half");
      throw new Error("disk");
    });
    expect([result.status, result.headers["x-a"]]).toEqual([500, undefined]);
  });

  test("after the end of its response keeps that response", async () => {
    const report = silence();
    const result = await twice(async (_request, response) => {
      response.writeHead(201).end("charged");
      throw new Error("no connection to the mail server");
    });
    expect([result.status, result.body]).toEqual([201, "charged"]);
    expect(report).toHaveBeenCalledOnce();
  });

  test("in the middle of a stream breaks it off, and is not run again", async () => {
    silence();
    let runs = 0;
    const keys = keysOf();
    const send = await openListener(
      forNode(keys, async (request: IncomingMessage, response: ServerResponse) => {
        runs++;
        keys.claimOf(request)?.stream();
        response.write("half");
        throw new Error("disk");
      }) as RequestListener,
    );
    await expect(send().then((response) => response.text())).rejects.toThrow();
    const again = await send();
    expect([again.status, runs]).toEqual([409, 1]);
  });
});

test("a stream of events is sent as it is written, beginning with its head", async () => {
  const keys = keysOf();
  const held: ServerResponse[] = [];
  const send = await openListener(
    forNode(keys, (request: IncomingMessage, response: ServerResponse) => {
      keys.claimOf(request)?.stream();
      held.push(response);
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.flushHeaders();
    }) as RequestListener,
  );
  // The head arrives before the first event.
  const response = await send();
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  for (const event of ["data: 1\n\n", "data: 2\n\n"]) {
    held[0]?.write(event);
    expect((await reader?.read())?.value).toBe(event);
  }
  held[0]?.end();
  expect((await reader?.read())?.done).toBe(true);
  expect(await keys.drain()).toBe(0);
  expect((await send()).status).toBe(410);
});

test("NotExecuted becomes a 503 with Retry-After, also without a key", async () => {
  const handler = forNode(keysOf(), () => {
    throw new NotExecuted("the card network is down");
  }) as RequestListener;
  const send = await openListener(handler);
  for (const key of ["k", ""]) {
    const response = await send(key);
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "1"]);
    expect(await response.json()).toMatchObject({ code: "NOT_EXECUTED" });
  }
});

test("one interceptor with keys behind another: both keep the response", async () => {
  const outer = keysOf({ header: "outer-key" });
  const inner = keysOf({ fingerprintBody: () => "" });
  let runs = 0;
  const seen: boolean[][] = [];
  const handler = forNode(inner, (_request: IncomingMessage, response: ServerResponse) => {
    runs++;
    response.end("charged");
  });
  const send = await openListener(
    forNode(outer, async (request: IncomingMessage, response: ServerResponse) => {
      await handler(request, response);
      await inner.drain();
      seen.push([response.headersSent, response.writableEnded]);
    }) as RequestListener,
  );
  const both = { "outer-key": "o" };
  expect(await (await send("k", "{}", both)).text()).toBe("charged");
  // The outer one still holds what the inner one has let through.
  expect(seen).toEqual([[true, true]]);
  expect((await send("other", "{}", both)).headers.get("idempotent-replayed")).toBe("true");
  expect(await (await send("k")).text()).toBe("charged");
  expect(runs).toBe(1);
});

/** As compressing middlewares do: wraps `write` and `end` of the response that it gets. */
function compress(response: ServerResponse): void {
  const end = response.end.bind(response);
  const chunks: Buffer[] = [];
  response.write = (chunk: Uint8Array) => chunks.push(Buffer.from(chunk)) > 0;
  response.end = ((chunk?: Uint8Array | string) => {
    if (chunk !== undefined) chunks.push(Buffer.from(chunk));
    response.setHeader("x-encoding", "gzip");
    return end(gzipSync(Buffer.concat(chunks)).toString("base64"));
  }) as ServerResponse["end"];
}

const unzip = (body: string) => gunzipSync(Buffer.from(body, "base64")).toString();

test("a middleware that compresses, inside or outside", async () => {
  const inside = await twice((_request, response) => {
    compress(response);
    response.write(Buffer.from("a"));
    response.end("b");
  });
  expect(unzip(inside.body)).toBe("ab");
  const outside = await twice(
    (_request, response) => response.end("ab"),
    (held) => (request, response) => {
      compress(response);
      held(request, response);
    },
  );
  expect(unzip(outside.body)).toBe("ab");
});

test("headers that were set before are those of each request, not of the stored response", async () => {
  let requests = 0;
  const send = await open(
    (_request, response) => {
      response.setHeader("x-handler", "1");
      response.end("ok");
    },
    (held) => (request, response) => {
      response.setHeader("x-request-number", ++requests);
      held(request, response);
    },
  );
  const numbers = [await send(), await send()].map(({ headers }) => [
    headers.get("x-request-number"),
    headers.get("x-handler"),
  ]);
  expect(numbers).toEqual([
    ["1", "1"],
    ["2", "1"],
  ]);
});

test("an error in an option is a 500 and not the end of the process", async () => {
  const report = vi.spyOn(console, "error").mockImplementation(() => undefined);
  const scope = () => {
    throw new Error("no account");
  };
  const server = createServer(
    forNode(keysOf({ scope }), (_request: IncomingMessage, response: ServerResponse) =>
      response.end("ok"),
    ),
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const headers = { "idempotency-key": "k" };
  const response = await fetch(`http://127.0.0.1:${port}/`, { method: "POST", headers });
  expect(response.status).toBe(500);
  expect(await response.json()).toMatchObject({ code: "INTERNAL" });
  expect(report).toHaveBeenCalledOnce();
});

test("a request that breaks off frees everything, and its key was never claimed", async () => {
  const events: string[] = [];
  const keys = keysOf({ onEvent: ({ type }) => events.push(type) });
  const ended: Promise<void>[] = [];
  const handler = forNode(keys, (_request: IncomingMessage, response: ServerResponse) =>
    response.end("ok"),
  );
  const server = createServer((request, response) => {
    ended.push(handler(request, response));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closers.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const socket = connect(port, "127.0.0.1");
  const arrived = once(server, "request");
  socket.write("POST / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: 10\r\n\r\nabc");
  await arrived;
  socket.destroy();
  await Promise.all(ended);
  expect(events).toEqual([]);
});

test("HTTP/2", async () => {
  const handler = forNode<NodeRequest, NodeResponse>(keysOf(), async (request, response) => {
    response.statusCode = 201;
    response.setHeader("x-a", ["1", "2"]);
    let body = "";
    for await (const chunk of request as unknown as AsyncIterable<Buffer>) body += chunk;
    response.end(Buffer.from(body.toUpperCase()));
  });
  const server = createHttp2Server((request, response) => {
    void handler(request as unknown as NodeRequest, response as unknown as NodeResponse);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = (server as unknown as Server).address() as AddressInfo;
  const client = connectHttp2(`http://127.0.0.1:${port}`);
  onTestFinished(() => {
    client.destroy();
    server.close();
  });
  const send = async () => {
    const stream = client.request({ ":method": "POST", ":path": "/", "idempotency-key": "k" });
    stream.end("hello");
    const [headers] = (await once(stream, "response")) as [Record<string, string>];
    let body = "";
    for await (const chunk of stream) body += chunk;
    return [headers[":status"], headers["x-a"], headers["idempotent-replayed"], body];
  };
  expect(await send()).toEqual([201, "1, 2", undefined, "HELLO"]);
  expect(await send()).toEqual([201, "1, 2", "true", "HELLO"]);
});
