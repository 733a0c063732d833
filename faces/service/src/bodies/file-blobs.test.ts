/** A directory of blobs: what a crash, a wrong disk and a wrong file leave, and what is refused. */
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { systemClock } from "@redrive/core";
import { expect, onTestFinished, test } from "vitest";
import { memoryDocuments } from "../stores/memory/memory-documents.ts";
import { type StoredBlob, tenantName, tenantOfName } from "./blob-store.ts";
import { fileBlobs } from "./file-blobs.ts";
import { openBlobs, openServiceBlobs } from "./open-blobs.ts";

const ID = "0192f0c1-2345-7abc-8def-0123456789ab";
const HOUR_MS = 3_600_000;

function newFolder(): string {
  const parent = mkdtempSync(join(tmpdir(), "redrive-blobs-"));
  onTestFinished(() => rmSync(parent, { recursive: true, force: true }));
  return join(parent, "blobs");
}

const upload = (source: Uint8Array | AsyncIterable<Uint8Array> = Buffer.from("hello")) => ({
  tenantId: "acme",
  blobId: ID,
  source,
  maxBytes: 100,
});
const options = (storeId: string) => ({
  clock: systemClock,
  documents: memoryDocuments(),
  exclusive: true,
  newId: () => storeId,
});

test("a blob is read back under the tenant that stored it, and under no other", async () => {
  const blobs = await fileBlobs(newFolder(), { exclusive: true });
  await blobs.owner("store");
  const ref = await blobs.write(upload());
  expect((await buffer(await blobs.open("acme", ref))).toString()).toBe("hello");
  await expect(blobs.open("acm", ref)).rejects.toMatchObject({ fault: "missing" });
  await expect(blobs.check("ACME", ref)).rejects.toMatchObject({ fault: "missing" });
  const listed: StoredBlob[] = [];
  for await (const blob of blobs.list(0)) listed.push(blob);
  expect(listed).toMatchObject([{ tenantId: "acme", ref }]);
  await blobs.remove("acme", ref);
  await expect(blobs.check("acme", ref)).rejects.toMatchObject({ fault: "missing" });
});

test("names of tenants cannot leave the directory, and are read back", () => {
  for (const tenantId of ["a", "../..", "Ünïcode/\0", "A".repeat(120)]) {
    expect(tenantName(tenantId)).toMatch(/^[\da-f]+$/);
    expect(tenantOfName(tenantName(tenantId))).toBe(tenantId);
  }
  for (const tenantId of ["", "x".repeat(121)])
    expect(() => tenantName(tenantId)).toThrow("1 to 120");
  for (const name of ["tmp", "owner", "", "abc", "ff"]) expect(tenantOfName(name)).toBeUndefined();
});

test("an upload that fails, is aborted or is too long leaves no file", async () => {
  const folder = newFolder();
  const blobs = await fileBlobs(folder, { exclusive: true });
  const abort = new AbortController();
  async function* source(end: () => void): AsyncGenerator<Uint8Array> {
    yield Buffer.alloc(60);
    end();
    yield Buffer.alloc(60);
  }
  const fail = () => {
    throw new Error("broken off");
  };
  await expect(blobs.write(upload(source(fail)))).rejects.toThrow("broken off");
  const stop = () => abort.abort(new Error("gone"));
  const aborted = { ...upload(source(stop)), signal: abort.signal };
  await expect(blobs.write(aborted)).rejects.toThrow("gone");
  await expect(blobs.write(upload(source(() => {})))).rejects.toMatchObject({ fault: "too-large" });
  expect(readdirSync(folder, { recursive: true })).toEqual(["tmp"]);
});

test("temporary files of a crash are removed at the start, or when they are old", async () => {
  const folder = newFolder();
  const shared = await fileBlobs(folder, { exclusive: false });
  const [old, young] = ["old", "young"].map((name) => join(folder, "tmp", name)) as [
    string,
    string,
  ];
  for (const path of [old, young]) writeFileSync(path, "part of an upload");
  const now = Date.parse("2030-01-01");
  utimesSync(old, now / 1000 - 7300, now / 1000 - 7300);
  utimesSync(young, now / 1000 - 7000, now / 1000 - 7000);
  await fileBlobs(folder, { exclusive: false });
  expect([existsSync(old), existsSync(young)]).toEqual([true, true]);
  for await (const _ of shared.list(now)) throw new Error("there is no blob");
  expect([existsSync(old), existsSync(young)]).toEqual([false, true]);
  await fileBlobs(folder, { exclusive: true });
  expect(existsSync(young)).toBe(false);
});

test("a directory that is not mounted is unavailable, which says nothing about its blobs", async () => {
  const folder = newFolder();
  const blobs = await openBlobs(`file:${folder}`, options("store"));
  const ref = await blobs.write(upload());
  renameSync(folder, `${folder}.away`);
  await expect(blobs.open("acme", ref)).rejects.toMatchObject({ fault: "unavailable" });
  await expect(blobs.write(upload())).rejects.toMatchObject({ fault: "unavailable" });
  renameSync(`${folder}.away`, folder);
  await blobs.check("acme", ref);
});

test("the blobs of another store are refused", async () => {
  const text = `file:${newFolder()}`;
  await openBlobs(text, options("store-1"));
  await openBlobs(text, options("store-1"));
  await expect(openBlobs(text, options("store-2"))).rejects.toMatchObject({
    code: "INVALID_ARGUMENT",
    message: expect.stringContaining("contains the bodies of another store"),
  });
});

test("the directory of a SQLite file is created with its first blob; a server has none", async () => {
  const folder = newFolder();
  const blobs = await openServiceBlobs(undefined, `sqlite:${folder}`, options("store"));
  for await (const _ of blobs?.list(HOUR_MS) ?? []) throw new Error("there is no blob");
  expect(existsSync(`${folder}.blobs`)).toBe(false);
  await blobs?.write(upload());
  expect(existsSync(`${folder}.blobs`)).toBe(true);
  expect(await openServiceBlobs(undefined, "postgres://h/d", options("store"))).toBeNull();
});

test("a directory that cannot be used is refused at the start", async () => {
  const folder = newFolder();
  writeFileSync(folder, "a file");
  const opened = openServiceBlobs(`file:${folder}`, "memory:", options("store"));
  await expect(opened).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  for (const text of [
    "file:",
    "s3://",
    "s3://B",
    "ftp://x",
    "s3://bucket/p?x=1",
    "s3://a:b@bucket",
  ]) {
    await expect(openServiceBlobs(text, "memory:", options("store"))).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
  }
});
