/** Tests of bodies: what can be sent twice is the same twice, what cannot is known. */
import { Readable } from "node:stream";
import { describe, expect, test } from "vitest";
import type { Body } from "../call/options.ts";
import { type ReplayableBody, replayableBody, requestBody } from "./replayable-body.ts";

/** What a server would get. */
async function bytesOf(body: ReturnType<ReplayableBody["next"]>): Promise<Uint8Array> {
  return new Uint8Array(await new Response(await body).arrayBuffer());
}

function form(): FormData {
  const data = new FormData();
  data.set("name", "Åsa");
  data.set("file", new Blob(["content"]), "a.txt");
  return data;
}

describe("a body that can be repeated", () => {
  const bodies: readonly [string, () => Body][] = [
    ["text", () => "text ✓"],
    ["bytes", () => new Uint8Array([0, 1, 255])],
    ["a view into a larger buffer", () => new Uint8Array(new ArrayBuffer(8), 2, 4).fill(7)],
    ["an ArrayBuffer", () => new Uint8Array([1, 2, 3]).buffer],
    ["a Blob", () => new Blob(["blob"])],
    ["search parameters", () => new URLSearchParams({ q: "a b" })],
    ["a form", form],
    ["a factory of streams", () => () => new Blob(["streamed"]).stream()],
  ];
  test.each(bodies)("%s is the same every time", async (_, make) => {
    const body = await replayableBody(make());
    expect(body.canRepeat).toBe(true);
    const first = await bytesOf(body.next());
    expect(first.length).toBeGreaterThan(0);
    expect(await bytesOf(body.next())).toEqual(first);
  });

  test("is not touched by what the caller does to its own afterwards", async () => {
    const bytes = new Uint8Array([1, 2, 3]);
    const parameters = new URLSearchParams({ q: "1" });
    const [copied, kept] = [await replayableBody(bytes), await replayableBody(parameters)];
    bytes.fill(0);
    parameters.set("q", "2");
    expect(await bytesOf(copied.next())).toEqual(new Uint8Array([1, 2, 3]));
    expect(await new Response(await kept.next()).text()).toBe("q=1");
  });

  test("a form keeps one boundary", async () => {
    const body = await replayableBody(form());
    const boundary = /boundary=(.*)$/.exec(body.contentType ?? "")?.[1];
    expect(boundary).toBeDefined();
    expect(new TextDecoder().decode(await bytesOf(body.next()))).toContain(boundary);
  });
});

describe("a body that cannot be repeated", () => {
  test("is a stream, of the web or of Node", async () => {
    expect((await replayableBody(new Blob(["x"]).stream())).canRepeat).toBe(false);
    const readable = Readable.from(["x"]) as unknown as Body;
    expect((await replayableBody(readable)).canRepeat).toBe(false);
  });
});

test("no body is no body", async () => {
  for (const body of [null, undefined]) {
    const replay = await replayableBody(body);
    expect(replay).toMatchObject({ canRepeat: true, contentType: undefined });
    expect(replay.next()).toBeNull();
  }
});

describe("the body of a Request", () => {
  test("is read once and repeated", async () => {
    const request = new Request("http://a.example/", { method: "POST", body: "data" });
    const body = await requestBody(request);
    expect(await new Response(await body.next()).text()).toBe("data");
    expect(await new Response(await body.next()).text()).toBe("data");
  });

  test("of a GET is none, also where a host does not show bodies", async () => {
    const hidden = new Proxy(new Request("http://a.example/"), {
      get: (request, name) => (name === "body" ? undefined : Reflect.get(request, name, request)),
    });
    expect((await requestBody(hidden)).next()).toBeNull();
  });
});
