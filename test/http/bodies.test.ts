/**
 * Tests of large bodies over HTTP: what is forwarded reaches the target byte for byte on every attempt,
 * and what is refused leaves nothing behind.
 */
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { statSync } from "node:fs";
import { createServer, request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { BlobFolder } from "./blob-folder.ts";
import {
  ADMIN,
  type BodyServer,
  bytesOf,
  CREATOR,
  OTHER,
  openBodyServer,
  sha256,
} from "./body-server.ts";
import { endings, openTestServer, type Sent, type TestServer } from "./test-server.ts";

const INLINE = 65_536;
const MAX_BODY = 300_000;

let bodies: BodyServer;
let server: TestServer;
let folder: BlobFolder;

beforeAll(async () => {
  bodies = await openBodyServer(MAX_BODY);
  ({ server, folder } = bodies);
});
afterAll(() => bodies.close());
beforeEach(() => {
  server.target.received.length = 0;
  server.target.statuses = [];
});

const forward = (body: Buffer, headers?: Sent["headers"]) => bodies.forward(body, headers);
const upload = (body: Buffer) => bodies.as(ADMIN, { path: "/bodies", body });
const view = (taskId: string, query?: string) => bodies.view(taskId, query);

describe("a forwarded body", () => {
  test.each([0, 1, 256, INLINE - 1, INLINE, INLINE + 1, MAX_BODY])(
    "of %d bytes reaches the target unchanged, on every attempt",
    async (length) => {
      const body = bytesOf(length);
      server.target.statuses = [503, 503];
      const ended = endings(server.redrive, 1);
      // A destination of its own, because the failures of all together would open the breaker.
      const response = await forward(body, { "redrive-destination": `length-${length}` });
      expect(response.status).toBe(202);
      expect(response.headers.location).toBe(`/retry-tasks/${response.json.taskId}`);
      await ended;
      const { received } = server.target;
      expect(received.map((one) => sha256(one.body))).toEqual(Array(3).fill(sha256(body)));
      expect(received.map(({ headers }) => headers["content-length"])).toEqual(
        Array(3).fill(String(length)),
      );
      const task = await view(response.json.taskId);
      expect(task).toMatchObject({ status: "SUCCEEDED", method: "POST", attemptNumber: 3 });
      if (length <= INLINE) expect(task.bodyRef).toBeNull();
      else
        expect(task.bodyRef).toMatch(new RegExp(`^[\\da-f-]{36}\\.${length}\\.${sha256(body)}$`));
    },
  );

  test("keeps its headers, without those of the connection and of this service", async () => {
    const ended = endings(server.redrive, 1);
    await forward(Buffer.from("x"), {
      "content-encoding": "gzip",
      "x-shop": "42",
      "x-private": "secret",
      connection: "keep-alive, X-Private",
      cookie: "session=1",
      te: "trailers",
      "proxy-authorization": "Basic abc",
      "redrive-target-authorization": "Bearer for-the-target",
      "redrive-attempt": "7",
      "idempotency-key": "headers-1",
    });
    await ended;
    const { headers } = server.target.received[0]!;
    expect(headers).toMatchObject({
      "content-type": "application/x-thing",
      "content-encoding": "gzip",
      "x-shop": "42",
      authorization: "Bearer for-the-target",
      "idempotency-key": "headers-1",
      "redrive-attempt": "1",
    });
    for (const name of ["x-private", "cookie", "te", "proxy-authorization", "redrive-target"]) {
      expect(headers).not.toHaveProperty(name);
    }
    expect(JSON.stringify(headers)).not.toContain(ADMIN);
  });

  test("may have no content type, arrive in chunks, and use another method", async () => {
    const ended = endings(server.redrive, 1);
    const { port } = server;
    const sending = httpRequest({
      port,
      method: "POST",
      path: "/forward",
      headers: {
        authorization: `Bearer ${ADMIN}`,
        "redrive-target": server.target.url,
        "redrive-method": "PUT",
      },
    });
    const responded = once(sending, "response");
    for (let part = 0; part < 5; part++) sending.write(bytesOf(20_000));
    sending.end();
    const [response] = await responded;
    expect(response.statusCode).toBe(202);
    response.resume();
    await ended;
    const [got] = server.target.received;
    expect(got?.body.equals(Buffer.concat(Array(5).fill(bytesOf(20_000))))).toBe(true);
    expect(got?.headers).not.toHaveProperty("content-type");
  });

  test("is not possible with GET, but a GET without a body is", async () => {
    const refused = await forward(Buffer.from("x"), { "redrive-method": "GET" });
    expect(refused).toMatchObject({ status: 400, json: { code: "INVALID_ARGUMENT" } });
    const ended = endings(server.redrive, 1);
    expect((await forward(Buffer.alloc(0), { "redrive-method": "GET" })).status).toBe(202);
    await ended;
    expect(server.target.received).toHaveLength(1);
  });
});

describe("a request that is refused stores nothing", () => {
  const large = bytesOf(INLINE + 1);
  const cases: readonly [string, Sent["headers"], number, string][] = [
    ["without a target", { "redrive-target": [] }, 400, "INVALID_ARGUMENT"],
    [
      "with a target that is denied",
      { "redrive-target": "http://10.0.0.1/" },
      422,
      "TARGET_DENIED",
    ],
    ["with an unknown policy", { "redrive-policy": "nothing" }, 422, "UNKNOWN_POLICY"],
    ["with a misspelled header", { "redrive-polisy": "quick" }, 400, "INVALID_ARGUMENT"],
    ["with an unknown method", { "redrive-method": "get" }, 400, "INVALID_ARGUMENT"],
    ["with a bad key", { "idempotency-key": "a b" }, 400, "INVALID_ARGUMENT"],
    ["with a reserved header", { "webhook-id": "1" }, 400, "INVALID_ARGUMENT"],
    ["from another origin", { origin: "https://evil.example" }, 403, "CROSS_ORIGIN"],
  ];
  test.each(cases)("%s", async (_, headers, status, code) => {
    const before = folder.files().length;
    const response = await forward(large, headers);
    expect([response.status, response.json.code]).toEqual([status, code]);
    expect(folder.files()).toHaveLength(before);
  });

  test("with a body above the limit, whether its length is known or not", async () => {
    const before = folder.files().length;
    const known = await forward(bytesOf(MAX_BODY + 1));
    expect(known).toMatchObject({ status: 413, json: { code: "BODY_TOO_LARGE" } });
    expect(known.json.detail).toContain(`at most ${MAX_BODY} bytes`);
    const chunked = await bodies.as(ADMIN, {
      path: "/forward",
      body: bytesOf(MAX_BODY + 1),
      headers: { "redrive-target": server.target.url, "transfer-encoding": "chunked" },
    });
    expect(chunked).toMatchObject({ status: 413, json: { code: "BODY_TOO_LARGE" } });
    expect(folder.files()).toHaveLength(before);
  });

  test("and neither does one whose caller goes away", async () => {
    const before = folder.files().length;
    const count = await server.redrive.count("acme");
    const sending = httpRequest({
      port: server.port,
      method: "POST",
      path: "/forward",
      headers: {
        authorization: `Bearer ${ADMIN}`,
        "redrive-target": server.target.url,
        "idempotency-key": "gone",
        "content-length": "200000",
      },
    });
    sending.on("error", () => {});
    sending.write(large);
    await expect.poll(() => folder.files().length).toBe(before + 1);
    const busy = await forward(large, { "idempotency-key": "gone" });
    expect(busy).toMatchObject({ status: 409, json: { code: "UPLOAD_IN_PROGRESS" } });
    expect(busy.headers["retry-after"]).toBe("1");
    sending.destroy();
    await expect.poll(() => folder.files().length).toBe(before);
    expect(await server.redrive.count("acme")).toEqual(count);
  });
});

describe("an idempotency key", () => {
  const key = { "idempotency-key": "order-1" };

  test("stands for the bytes of a large body: a repeat is replayed and leaves no second blob", async () => {
    const ended = endings(server.redrive, 1);
    const first = await forward(bytesOf(100_000), key);
    await ended;
    const before = folder.blobs();
    const again = await forward(bytesOf(100_000), key);
    expect(again.status).toBe(200);
    expect(again.headers["idempotent-replayed"]).toBe("true");
    expect(again.json.taskId).toBe(first.json.taskId);
    const changed = bytesOf(100_000);
    changed[50_000]! ^= 1;
    expect((await forward(changed, key)).json.code).toBe("IDEMPOTENCY_CONFLICT");
    expect(folder.blobs()).toEqual(before);
  });
});

describe("a bodyRef", () => {
  test("from an upload or another task creates tasks with that body", async () => {
    const body = bytesOf(200_000);
    const stored = await upload(body);
    expect(stored.status).toBe(201);
    expect(stored.json).toMatchObject({ length: 200_000, sha256: sha256(body) });
    const ended = endings(server.redrive, 2);
    const task = { targetUrl: server.target.url, bodyRef: stored.json.bodyRef };
    const first = await bodies.as(ADMIN, { body: task });
    expect(first.status).toBe(202);
    const { bodyRef } = await view(first.json.taskId);
    expect(bodyRef).toBe(stored.json.bodyRef);
    expect((await bodies.as(ADMIN, { body: { ...task, bodyRef } })).status).toBe(202);
    await ended;
    expect(server.target.received.map((one) => sha256(one.body))).toEqual([
      sha256(body),
      sha256(body),
    ]);
  });

  test("of another tenant, of other bytes or of none is refused", async () => {
    const { bodyRef } = (await upload(bytesOf(70_000))).json;
    const create = (ref: unknown, key = ADMIN) =>
      bodies.as(key, { body: { targetUrl: server.target.url, bodyRef: ref } });
    const [id, length, hash] = bodyRef.split(".");
    const wrongHash = `${id}.${length}.${sha256(Buffer.from("other"))}`;
    const wrongLength = `${id}.70001.${hash}`;
    for (const response of [
      await create(bodyRef, OTHER),
      await create(wrongHash),
      await create(wrongLength),
    ]) {
      expect(response).toMatchObject({ status: 422, json: { code: "BODY_NOT_FOUND" } });
    }
    for (const ref of ["../../etc/passwd", 7, "", `${bodyRef}x`]) {
      expect(await create(ref)).toMatchObject({ status: 400, json: { code: "INVALID_ARGUMENT" } });
    }
    const ended = endings(server.redrive, 1);
    expect((await create(bodyRef)).status).toBe(202);
    await ended;
  });

  test("appears when JSON brings a large body, which can be downloaded", async () => {
    const text = "ü".repeat(100_000);
    const ended = endings(server.redrive, 1);
    const body = { targetUrl: server.target.url, json: text };
    const { taskId } = (await bodies.as(ADMIN, { body })).json;
    await ended;
    const sent = Buffer.from(JSON.stringify(text));
    const [got] = server.target.received;
    expect(got?.body.equals(sent)).toBe(true);
    expect(got?.headers["content-type"]).toBe("application/json");
    const task = await view(taskId, "?include=body");
    expect(task).toMatchObject({ bodyUrl: `/retry-tasks/${taskId}/body` });
    expect(task).not.toHaveProperty("body");
    const page = (await bodies.as(ADMIN, { method: "GET", path: "/retry-tasks?limit=1" })).json;
    expect(page.tasks[0].bodyRef).toBe(task.bodyRef);
    const got2 = await bodies.as(ADMIN, { method: "GET", path: task.bodyUrl });
    expect([got2.status, got2.text === sent.toString(), got2.headers["content-type"]]).toEqual([
      200,
      true,
      "application/octet-stream",
    ]);
    const denied = await bodies.as(CREATOR, { method: "GET", path: task.bodyUrl });
    expect(denied.status).toBe(403);
    expect((await bodies.as(OTHER, { method: "GET", path: task.bodyUrl })).status).toBe(404);
  });
});

test("a target that responds before it has read the body gets its status counted", async () => {
  const early = createServer((_request, response) => {
    response.writeHead(413, { connection: "close" }).end("too long");
  });
  await once(early.listen(0, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${(early.address() as AddressInfo).port}/`;
  const ended = endings(server.redrive, 1);
  const { taskId } = (await forward(bytesOf(MAX_BODY), { "redrive-target": url })).json;
  await ended;
  early.closeAllConnections();
  early.close();
  const [attempt] = await bodies.attemptsOf(taskId);
  expect([attempt.attemptNumber, attempt.errorClass ?? attempt.responseStatus]).toEqual([1, 413]);
});

test("a signature covers the whole of a large body, and is new for each attempt", async () => {
  const secret = `whsec_${Buffer.alloc(24, 7).toString("base64")}`;
  await server.redrive.configure("signed", { signingSecrets: [secret] }, "acme");
  server.target.statuses = [503];
  const ended = endings(server.redrive, 1);
  const body = bytesOf(MAX_BODY);
  await forward(body, { "redrive-destination": "signed" });
  await ended;
  expect(server.target.received).toHaveLength(2);
  for (const got of server.target.received) {
    expect(got.body.equals(body)).toBe(true);
    const id = got.headers["webhook-id"];
    const signed = createHmac("sha256", Buffer.alloc(24, 7))
      .update(`${id}.${got.headers["webhook-timestamp"]}.`)
      .update(body)
      .digest("base64");
    expect(got.headers["webhook-signature"]).toBe(`v1,${signed}`);
  }
});

test("only the owner may read the directory and the blobs", async () => {
  const { bodyRef } = (await upload(bytesOf(10))).json;
  const path = folder.pathOf(bodyRef);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(statSync(dirname(path)).mode & 0o777).toBe(0o700);
  expect(statSync(folder.path).mode & 0o777).toBe(0o700);
});

test("a store without a place for blobs says how to get one", async () => {
  const bare = await openTestServer();
  const task = { targetUrl: bare.target.url, body: "x".repeat(INLINE + 1) };
  for (const sent of [
    { body: task },
    { path: "/forward", body: bytesOf(INLINE + 1), headers: { "redrive-target": bare.target.url } },
  ]) {
    const response = await bare.call(sent);
    expect(response).toMatchObject({ status: 413, json: { code: "BODY_TOO_LARGE" } });
    expect(response.json.detail).toContain("--blobs");
  }
  await bare.close();
});
