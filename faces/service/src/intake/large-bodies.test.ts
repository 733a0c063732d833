/** Tests of large bodies in an embedded service: where they are stored, and what is left of refused ones. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { createRedrive } from "../create-redrive.ts";

async function open(options: object = {}) {
  const folder = mkdtempSync(join(tmpdir(), "redrive-large-"));
  const redrive = await createRedrive({ store: "memory:", blobs: `file:${folder}`, ...options });
  onTestFinished(async () => {
    await redrive.stop(0);
    rmSync(folder, { recursive: true, force: true });
  });
  const blobs = () =>
    readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((name) => /\.[\da-f]{64}$/.test(name))
      .map((name) => readFileSync(join(folder, name)));
  // Nothing is sent before the tests end.
  const task = { targetUrl: "http://127.0.0.1:9999/", scheduledAt: redrive.now() + 3_600_000 };
  return { redrive, blobs, task };
}

test("bodies in every form move to the blob store above the limit, and not at it", async () => {
  const { redrive, blobs, task } = await open({ inlineBodyBytes: 10 });
  const bytes = Buffer.from("0123456789");
  const small = [{ body: "0123456789" }, { body: bytes }, { body: Readable.from([bytes]) }];
  for (const form of small) {
    const { taskId } = await redrive.enqueue({ ...task, ...form });
    const stored = await redrive.get(taskId);
    expect(stored).toMatchObject({ bodyRef: null, labels: {} });
    expect(Buffer.from(stored?.body ?? [])).toEqual(bytes);
  }
  expect(blobs()).toEqual([]);
  const large = [
    { body: "0123456789x" },
    { bodyBase64: Buffer.from("0123456789x").toString("base64") },
    { body: Readable.from([bytes, Buffer.from("x")]) },
    { body: new Blob(["0123456789x"]).stream() },
  ];
  for (const form of large) {
    const { taskId } = await redrive.enqueue({ ...task, ...form });
    const stored = await redrive.get(taskId);
    const { bodyRef, labels } = stored!;
    expect(labels).toEqual({ "redrive.body": bodyRef?.split(".")[0] });
    expect((await buffer(await redrive.bodies.open(stored!))).toString()).toBe("0123456789x");
  }
  expect(blobs().map(String)).toEqual(Array(4).fill("0123456789x"));
  const { taskId } = await redrive.enqueue({ ...task, json: "0123456789" });
  expect(await redrive.get(taskId)).toMatchObject({
    body: null,
    headers: { "content-type": "application/json" },
  });
});

test("a repeated key finds the task by the bytes of its body, and leaves no second blob", async () => {
  const { redrive, blobs, task } = await open({ inlineBodyBytes: 0 });
  const keyed = (body: string) => ({
    ...task,
    idempotencyKey: "k",
    body: Readable.from([Buffer.from(body)]),
  });
  const first = await redrive.enqueue(keyed("one"));
  expect(await redrive.enqueue(keyed("one"))).toEqual({ taskId: first.taskId, replayed: true });
  await expect(redrive.enqueue(keyed("two"))).rejects.toMatchObject({
    code: "IDEMPOTENCY_CONFLICT",
  });
  expect(blobs().map(String)).toEqual(["one"]);
});

test("a ref must name a body of the tenant", async () => {
  const { redrive, task } = await open();
  const bodyRef = await redrive.bodies.upload(Readable.from([Buffer.from("x")]), "acme");
  await redrive.enqueue({ ...task, bodyRef }, "acme");
  await expect(redrive.enqueue({ ...task, bodyRef }, "other")).rejects.toMatchObject({
    code: "BODY_NOT_FOUND",
  });
});

test("a source that fails, is refused or is no source of bytes leaves neither task nor blob", async () => {
  const { redrive, blobs, task } = await open({ inlineBodyBytes: 0, maxBodyBytes: 100 });
  async function* failing(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("x");
    throw new Error("broken off");
  }
  const enqueue = (body: AsyncIterable<Uint8Array>, more: object = {}) =>
    redrive.enqueue({ ...task, ...more, body });
  await expect(enqueue(failing())).rejects.toThrow("broken off");
  await expect(enqueue(Readable.from(["text"]))).rejects.toMatchObject({
    code: "INVALID_ARGUMENT",
  });
  const long = Readable.from([Buffer.alloc(101)]);
  await expect(enqueue(long)).rejects.toMatchObject({ code: "BODY_TOO_LARGE" });
  const unread = Readable.from([Buffer.from("x")]);
  const denied = enqueue(unread, { targetUrl: "http://10.0.0.1/" });
  await expect(denied).rejects.toMatchObject({ code: "TARGET_DENIED" });
  expect(unread.readableDidRead).toBe(false);
  expect(blobs()).toEqual([]);
  expect(await redrive.count()).toEqual({});
});

test("a tenant may have sixteen uploads at once", async () => {
  const { redrive } = await open();
  let end: () => void = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  async function* slow(): AsyncGenerator<Uint8Array> {
    await ended;
    yield Buffer.from("x");
  }
  const running = Array.from({ length: 16 }, () => redrive.bodies.upload(slow(), "acme"));
  await expect(redrive.bodies.upload(slow(), "acme")).rejects.toMatchObject({
    code: "TOO_MANY_REQUESTS",
  });
  const other = redrive.bodies.upload(slow(), "other");
  end();
  expect(new Set(await Promise.all([...running, other])).size).toBe(17);
});
