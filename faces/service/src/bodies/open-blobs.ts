/**
 * Open blobs: opens the blob store that a text names, or the directory next to a SQLite file. A blob
 * store belongs to one store of tasks: another one would remove its blobs as orphans.
 */
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { type Clock, quote, systemClock } from "@redrive/core";
import type { DocumentTable } from "../model/document-table.ts";
import { serviceError } from "../model/errors.ts";
import { BlobError, type BlobStore, type StoredBlob } from "./blob-store.ts";
import { fileBlobs } from "./file-blobs.ts";
import { parseS3Address, s3Blobs } from "./s3-blobs.ts";

/** What a blob store is called in messages. */
export const BLOB_FORMS = "file:DIR or s3://BUCKET/PREFIX";

/** Throws `INVALID_ARGUMENT` for what can be refused before anything is opened. */
export function checkBlobsText(text: string): void {
  if (/^file:./su.test(text)) return;
  if (text.startsWith("s3:")) {
    parseS3Address(text);
    return;
  }
  throw serviceError("INVALID_ARGUMENT", `blobs must be ${BLOB_FORMS}, got ${quote(text)}`);
}

/**
 * The blob store of a service; null: it has none. A named directory must be usable at the start. The
 * default directory is created with its first blob. A bucket that does not respond is tried again later.
 */
export async function openServiceBlobs(
  text: string | undefined,
  store: unknown,
  options: OpenBlobsOptions,
): Promise<BlobStore | null> {
  const name = text ?? defaultBlobs(store);
  if (name === undefined) return null;
  const isBucket = name.startsWith("s3:");
  const exists = () => isBucket || existsSync(name.slice("file:".length));
  const open = () => openBlobs(name, options);
  if (text === undefined && !exists()) return lazyBlobs({ name, open, exists });
  try {
    return await open();
  } catch (error) {
    if (!isBucket || !(error instanceof BlobError)) throw startError(name, error);
    return lazyBlobs({ name, open, exists });
  }
}

function startError(name: string, error: unknown): unknown {
  if (!(error instanceof BlobError)) return error;
  return serviceError("INVALID_ARGUMENT", `blobs ${quote(name)}: ${error.message}`, error);
}

/** The directory of a SQLite file; undefined: the store has no default place for blobs. */
function defaultBlobs(store: unknown): string | undefined {
  const path = typeof store === "string" && /^sqlite:(.+)$/su.exec(store)?.[1];
  return path ? `file:${path}.blobs` : undefined;
}

interface OpenBlobsOptions {
  readonly clock: Clock;
  readonly documents: DocumentTable;
  /** Only this process uses the store of tasks. */
  readonly exclusive: boolean;
  readonly newId: () => string;
}

/** Throws `INVALID_ARGUMENT` if the blobs belong to another store, and `BlobError` if it fails. */
export async function openBlobs(text: string, options: OpenBlobsOptions): Promise<BlobStore> {
  checkBlobsText(text);
  const { clock, exclusive } = options;
  const blobs = text.startsWith("s3:")
    ? await s3Blobs(text, clock)
    : await fileBlobs(text.slice("file:".length), { exclusive });
  try {
    const storeId = await storeIdOf(options);
    const owner = await blobs.owner(storeId);
    if (owner === storeId) return blobs;
    const message = `${blobs.name} contains the bodies of another store: choose an empty place with blobs`;
    throw serviceError("INVALID_ARGUMENT", message);
  } catch (error) {
    await blobs.close();
    throw error;
  }
}

const STORE_ID = { kind: "blobs", tenantId: "", id: "store" } as const;

/** The id of the store, which is written when the first blob store is opened. */
async function storeIdOf({ documents, newId }: OpenBlobsOptions): Promise<string> {
  const { kind, tenantId, id } = STORE_ID;
  const stored = await documents.get(kind, tenantId, id);
  if (stored !== null) return stored.text;
  const text = newId();
  if (await documents.put({ ...STORE_ID, version: 1, text })) return text;
  // Another node was first.
  return (await documents.get(kind, tenantId, id))?.text ?? text;
}

// Lazy blobs: a blob store that is opened at its first use, and again if that failed. A service
// without large bodies creates no directory, and one whose bucket does not respond still starts.

interface LazyBlobsOptions {
  readonly name: string;
  readonly open: () => Promise<BlobStore>;
  /** False: nothing was ever stored, so that a list need not open it. */
  readonly exists: () => boolean;
}

function lazyBlobs({ name, open, exists }: LazyBlobsOptions): BlobStore {
  let opening: Promise<BlobStore> | undefined;
  const opened = () => {
    opening ??= open().catch((error: unknown) => {
      opening = undefined;
      throw error;
    });
    return opening;
  };
  return {
    name,
    write: async (upload) => (await opened()).write(upload),
    check: async (tenantId, ref) => (await opened()).check(tenantId, ref),
    open: async (tenantId, ref, signal) => (await opened()).open(tenantId, ref, signal),
    remove: async (tenantId, ref) => (await opened()).remove(tenantId, ref),
    async *list(now): AsyncGenerator<StoredBlob> {
      if (opening !== undefined || exists()) yield* (await opened()).list(now);
    },
    owner: async (storeId) => (await opened()).owner(storeId),
    async close() {
      const blobs = await opening?.catch(() => undefined);
      await blobs?.close();
    },
  };
}

// Inspect blobs: what `redrive doctor` reports about the place for large bodies. It stores nothing.

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
