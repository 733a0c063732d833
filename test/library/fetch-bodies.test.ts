/**
 * Bodies on the wire: if a real server responds with 503 and then 200, it receives the same bytes
 * twice or exactly one request. It never receives an empty body.
 */
import { Readable } from "node:stream";
import { createFetch, type RedriveInit } from "redrive";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type ScriptedServer, script, scriptedServer } from "./scripted-server.ts";

const FAST = { initialDelayMs: 1, maxAttempts: 3 } as const;
const http = createFetch(FAST);

let server: ScriptedServer;
beforeEach(async () => {
  server = await scriptedServer(script({ status: 503 }, { status: 200, body: "stored" }));
});
afterEach(() => server.close());

const put = (init: RedriveInit) => http(`${server.origin}/item`, { method: "PUT", ...init });

function form(): FormData {
  const data = new FormData();
  data.set("name", "Åsa");
  data.set("file", new Blob(["x".repeat(70_000)]), "big.txt");
  return data;
}

describe("a replayable body arrives completely, twice", () => {
  const bodies: readonly [string, () => RedriveInit["body"], string | undefined][] = [
    ["text", () => "text ✓", "text ✓"],
    ["bytes", () => new TextEncoder().encode("bytes"), "bytes"],
    ["an ArrayBuffer", () => new TextEncoder().encode("buffer").buffer as ArrayBuffer, "buffer"],
    ["a Blob", () => new Blob(["blob"], { type: "text/x" }), "blob"],
    ["search parameters", () => new URLSearchParams({ q: "a b" }), "q=a+b"],
    ["a form", form, undefined],
    ["a function that creates streams", () => () => new Blob(["fresh"]).stream(), "fresh"],
  ];
  test.each(bodies)("%s", async (_, make, text) => {
    const response = await put({ body: make() });
    expect(response.status).toBe(200);
    expect(server.received).toHaveLength(2);
    const [first, second] = server.received;
    expect(first?.body.length).toBeGreaterThan(0);
    expect(second?.body.equals(first?.body ?? Buffer.alloc(0))).toBe(true);
    expect(second?.headers["content-type"]).toBe(first?.headers["content-type"]);
    if (text !== undefined) expect(first?.body.toString()).toBe(text);
  });

  test("a Request object, with its headers and method", async () => {
    const request = new Request(`${server.origin}/item`, {
      method: "PUT",
      body: "of a request",
      headers: { "x-mine": "1" },
    });
    expect((await http(request)).status).toBe(200);
    expect(server.received.map(({ method, body }) => `${method} ${body}`)).toEqual([
      "PUT of a request",
      "PUT of a request",
    ]);
    expect(server.received.map(({ headers }) => headers["x-mine"])).toEqual(["1", "1"]);
  });

  test("an abort ends a call whose Request body never arrives", async () => {
    const controller = new AbortController();
    const reason = new Error("canceled");
    let onRead = () => {};
    const reading = new Promise<void>((resolve) => {
      onRead = resolve;
    });
    const body = new ReadableStream({
      pull: () => {
        onRead();
        return new Promise(() => undefined);
      },
    });
    const init = { method: "PUT", body, duplex: "half", signal: controller.signal };
    const call = createFetch({})(new Request("http://localhost/", init as RequestInit));
    await reading;
    controller.abort(reason);
    await expect(call).rejects.toBe(reason);
  });

  test("a buffer that the caller reuses during the wait", async () => {
    const bytes = new TextEncoder().encode("original");
    let onRetry: () => void = () => undefined;
    const retryPlanned = new Promise<void>((resolve) => {
      onRetry = resolve;
    });
    const redrive = {
      initialDelayMs: 20,
      jitterType: "NONE",
      onEvent: (event: { type: string }) => event.type === "retry" && onRetry(),
    } as const;
    const call = put({
      body: bytes,
      redrive: { ...redrive, onEvent: (e) => void redrive.onEvent(e) },
    });
    await retryPlanned;
    bytes.fill(0);
    await call;
    expect(server.received.map(({ body }) => body.toString())).toEqual(["original", "original"]);
  });

  test("a request without a body stays without one", async () => {
    await http(`${server.origin}/item`);
    expect(server.received.map(({ method, body }) => `${method} ${body.length}`)).toEqual([
      "GET 0",
      "GET 0",
    ]);
  });
});

describe("a body that cannot be replayed is sent exactly once", () => {
  test.each([
    ["a stream", () => new Blob(["streamed"]).stream()],
    ["a Node stream", () => Readable.from([Buffer.from("streamed")]) as never],
  ])("%s", async (_, make) => {
    const response = await put({ body: make() });
    expect(response.status).toBe(503);
    expect(server.received.map(({ body }) => body.toString())).toEqual(["streamed"]);
  });
});
