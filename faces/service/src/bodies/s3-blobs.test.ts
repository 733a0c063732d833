/** Blobs in a bucket: the AWS SDK against a real server with the API of S3. */
import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { systemClock } from "@redrive/core";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { memoryDocuments } from "../stores/memory/memory-documents.ts";
import { type BlobStore, type StoredBlob, verifiedStream } from "./blob-store.ts";
import { openBlobs, openServiceBlobs } from "./open-blobs.ts";
import { type S3TestServer, startS3 } from "./s3-server.testing.ts";

const ID = "0192f0c1-2345-7abc-8def-0123456789ab";
const OTHER_ID = "0192f0c1-2345-7abc-8def-0123456789ac";
const spool = mkdtempSync(join(tmpdir(), "redrive-spool-test-"));
let server: S3TestServer;
let blobs: BlobStore;

const options = (storeId = "store-1") => ({
  clock: systemClock,
  documents: memoryDocuments(),
  exclusive: false,
  newId: () => storeId,
});
const text = () => `${server.blobs}&spool=${encodeURIComponent(spool)}`;

beforeAll(async () => {
  server = await startS3();
  blobs = await openBlobs(text(), options());
});
afterAll(async () => {
  await blobs.close();
  await server.close();
  rmSync(spool, { recursive: true });
});
beforeEach(() => {
  server.fault = () => undefined;
});

const write = (source: Uint8Array | AsyncIterable<Uint8Array>, blobId = ID, maxBytes = 1e9) =>
  blobs.write({ tenantId: "acme", blobId, source, maxBytes });
const read = async (ref: Awaited<ReturnType<typeof write>>) =>
  buffer(verifiedStream(await blobs.open("acme", ref), ref));
const spooled = () => readdirSync(spool, { recursive: true }).length;

async function* parts(bytes: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

test("a streamed body of 10 MB is stored, listed, read back and removed", async () => {
  const bytes = randomBytes(10_000_000);
  const ref = await write(parts(bytes, 65_536));
  expect(ref).toEqual({
    blobId: ID,
    length: 10_000_000,
    sha256: createHash("sha256").update(bytes).digest("hex"),
  });
  await blobs.check("acme", ref);
  expect((await read(ref)).equals(bytes)).toBe(true);
  const listed: StoredBlob[] = [];
  for await (const blob of blobs.list(0)) listed.push(blob);
  expect(listed).toEqual([{ tenantId: "acme", ref, storedAt: expect.any(Number) }]);
  await expect(blobs.check("other", ref)).rejects.toMatchObject({ fault: "missing" });
  await blobs.remove("acme", ref);
  await blobs.remove("acme", ref);
  await expect(blobs.open("acme", ref)).rejects.toMatchObject({ fault: "missing" });
  expect(spooled()).toBe(1);
});

test("a server that fails twice gets the body a third time", async () => {
  let left = 2;
  server.fault = ({ method }) => (method === "PUT" && left-- > 0 ? { status: 503 } : undefined);
  const ref = await write(parts(Buffer.from("hello, world"), 5), OTHER_ID);
  expect((await read(ref)).toString()).toBe("hello, world");
  await blobs.remove("acme", ref);
});

test("a server that keeps failing makes the blob store unavailable, and leaves nothing", async () => {
  const ref = await write(Buffer.from("before"), OTHER_ID);
  server.fault = () => ({ status: 500 });
  await expect(write(Buffer.from("x"))).rejects.toMatchObject({ fault: "unavailable" });
  await expect(blobs.open("acme", ref)).rejects.toMatchObject({ fault: "unavailable" });
  await expect(blobs.check("acme", ref)).rejects.toMatchObject({ fault: "unavailable" });
  server.fault = () => undefined;
  expect((await read(ref)).toString()).toBe("before");
  await blobs.remove("acme", ref);
  expect(spooled()).toBe(1);
});

test("a server that does not respond is unavailable once the caller gives up", async () => {
  const ref = await write(Buffer.from("before"), OTHER_ID);
  server.fault = () => "hang";
  const late = new AbortController();
  const opening = blobs.open("acme", ref, late.signal);
  await expect.poll(() => server.calls.at(-1)).toMatch(/^GET/);
  late.abort(new Error("too late"));
  await expect(opening).rejects.toThrow("too late");
});

test("a source that breaks off, or is too long, leaves nothing", async () => {
  const puts = () => server.calls.filter((call) => call.startsWith("PUT")).length;
  const before = puts();
  async function* broken(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("a");
    throw new Error("broken off");
  }
  await expect(write(broken())).rejects.toThrow("broken off");
  await expect(write(parts(Buffer.alloc(100), 10), ID, 99)).rejects.toMatchObject({
    fault: "too-large",
  });
  expect(puts()).toBe(before);
  expect(spooled()).toBe(1);
});

test("the blobs of another store are refused, and a bucket that is down is tried later", async () => {
  await expect(openBlobs(text(), options("store-2"))).rejects.toThrow(
    "contains the bodies of another store",
  );
  server.fault = () => ({ status: 503 });
  const later = await openServiceBlobs(text(), "postgres://", options());
  const upload = { tenantId: "acme", blobId: ID, source: Buffer.from("x"), maxBytes: 9 };
  await expect(later?.write(upload)).rejects.toMatchObject({ fault: "unavailable" });
  server.fault = () => undefined;
  expect(await later?.write(upload)).toMatchObject({ length: 1 });
  await later?.close();
});
