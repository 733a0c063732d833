/** Inspect blobs: what `redrive doctor` reports about the place for large bodies. It stores nothing. */
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { systemClock } from "@redrive/core";
import { checkBlobsText, defaultBlobs } from "./open-blobs.ts";
import { s3Blobs } from "./s3-blobs.ts";

export interface BlobsReport {
  /** Null: large bodies are refused. */
  readonly place: string | null;
  readonly exists: boolean;
}

/** Throws if the place cannot be used. */
export async function inspectBlobs(store: string, text?: string): Promise<BlobsReport> {
  const name = text ?? defaultBlobs(store);
  if (name === undefined) return { place: null, exists: false };
  checkBlobsText(name);
  return name.startsWith("s3:") ? inspectBucket(name) : inspectDirectory(name);
}

function inspectDirectory(name: string): BlobsReport {
  const path = resolve(name.slice("file:".length));
  const exists = existsSync(path);
  let folder = path;
  while (!existsSync(folder)) folder = dirname(folder);
  if (!statSync(folder).isDirectory()) throw new Error(`${folder} is not a directory`);
  accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  return { place: `file:${path}`, exists };
}

/** The first page of the list shows that bucket and credentials are right. */
async function inspectBucket(name: string): Promise<BlobsReport> {
  const blobs = await s3Blobs(name, systemClock);
  try {
    await blobs.list(0)[Symbol.asyncIterator]().next();
    return { place: blobs.name, exists: true };
  } finally {
    await blobs.close();
  }
}
