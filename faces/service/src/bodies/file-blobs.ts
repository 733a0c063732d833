/**
 * File blobs: a directory of blobs. An upload is written to a temporary file, synced, renamed to its
 * final name, and its directory is synced: only then does the blob exist. Only the owner may read it.
 */

import { createHash } from "node:crypto";
import {
  type FileHandle,
  mkdir,
  open,
  opendir,
  readFile,
  rename,
  rm,
  stat,
} from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { Readable } from "node:stream";
import {
  BlobError,
  type BlobStore,
  type BlobUpload,
  type BodyRef,
  blobErrorOf,
  bodyRefText,
  parseBodyRef,
  type StoredBlob,
  tenantName,
  tenantOfName,
} from "./blob-store.ts";

/** Present in every directory of blobs. If it is missing, the disk is probably not mounted. */
const OWNER_FILE = "owner";
const TEMPORARY = "tmp";

/** No upload takes this long, so an older temporary file belongs to a process that crashed. */
const TEMPORARY_MS = 2 * 3_600_000;

const READ_BYTES = 65_536;

const SHARD = /^[\da-f]{2}$/;

interface FileBlobsOptions {
  /** No other process uses the directory: the temporary files at the start are from a crash. */
  readonly exclusive: boolean;
}

/** Creates the directory if it does not exist. Throws `BlobError` if it cannot be used. */
export async function fileBlobs(path: string, options: FileBlobsOptions): Promise<BlobStore> {
  const root = resolve(path);
  const blobs = new FileBlobs(root);
  try {
    await makeDirectory(join(root, TEMPORARY));
    await blobs.removeTemporary(options.exclusive ? Number.POSITIVE_INFINITY : 0);
  } catch (error) {
    throw blobErrorOf(error, `the directory ${root} cannot be used for bodies`);
  }
  return blobs;
}

class FileBlobs implements BlobStore {
  readonly name: string;
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
    this.name = `file:${root}`;
  }

  async write(upload: BlobUpload): Promise<BodyRef> {
    const { tenantId, blobId } = upload;
    const temporary = join(this.#root, TEMPORARY, blobId);
    const folder = this.#folder(tenantId, blobId);
    try {
      const digested = await writeDigested({ ...upload, path: temporary, sync: true });
      const ref = { blobId, ...digested };
      await this.#publish(temporary, join(folder, bodyRefText(ref)));
      return ref;
    } catch (error) {
      throw uploadError(error, upload, blobErrorOf);
    }
  }

  /** A crash before the last sync leaves a file that no task refers to, or none. */
  async #publish(temporary: string, path: string): Promise<void> {
    const folder = dirname(path);
    try {
      await makeDirectory(folder);
      await rename(temporary, path);
      await syncFolder(folder);
    } catch (error) {
      await rm(temporary, { force: true });
      await rm(path, { force: true });
      throw error;
    }
  }

  async check(tenantId: string, ref: BodyRef): Promise<void> {
    try {
      const { size } = await stat(this.#path(tenantId, ref));
      if (size !== ref.length) throw wrongLength(ref, size);
    } catch (error) {
      throw await this.#readError(error);
    }
  }

  async open(tenantId: string, ref: BodyRef, signal?: AbortSignal): Promise<Readable> {
    try {
      const file = await open(this.#path(tenantId, ref));
      const { size } = await file.stat();
      if (size === ref.length && !signal?.aborted) {
        return file.createReadStream({ highWaterMark: READ_BYTES });
      }
      await file.close();
      signal?.throwIfAborted();
      throw wrongLength(ref, size);
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw await this.#readError(error);
    }
  }

  async remove(tenantId: string, ref: BodyRef): Promise<void> {
    try {
      await rm(this.#path(tenantId, ref), { force: true });
    } catch (error) {
      throw blobErrorOf(error, "a body could not be removed");
    }
  }

  async *list(now: number): AsyncGenerator<StoredBlob> {
    try {
      await this.removeTemporary(now - TEMPORARY_MS);
      for await (const tenant of await opendir(this.#root)) {
        const tenantId = tenantOfName(tenant.name);
        if (tenantId === undefined) continue;
        const folder = join(this.#root, tenant.name);
        for await (const shard of await opendir(folder)) {
          if (SHARD.test(shard.name)) yield* this.#listShard(tenantId, join(folder, shard.name));
        }
      }
    } catch (error) {
      throw blobErrorOf(error, "the bodies could not be listed");
    }
  }

  async *#listShard(tenantId: string, folder: string): AsyncGenerator<StoredBlob> {
    for await (const { name } of await opendir(folder)) {
      const ref = parseBodyRef(name);
      const found = ref && (await existing(stat(join(folder, name))));
      if (ref && found) yield { tenantId, ref, storedAt: found.mtimeMs };
    }
  }

  async owner(storeId: string): Promise<string> {
    const path = join(this.#root, OWNER_FILE);
    const found = await existing(readFile(path, "utf8"));
    if (found !== undefined) return found.trim();
    const temporary = join(this.#root, TEMPORARY, `${OWNER_FILE}-${storeId}`);
    const source = Buffer.from(`${storeId}\n`);
    await rm(temporary, { force: true });
    await writeDigested({ path: temporary, source, maxBytes: source.length, sync: true });
    await rename(temporary, path);
    await syncFolder(this.#root);
    return storeId;
  }

  async close(): Promise<void> {}

  /** Temporary files that were last written before this instant. */
  async removeTemporary(before: number): Promise<void> {
    const folder = join(this.#root, TEMPORARY);
    for await (const { name } of await opendir(folder)) {
      const path = join(folder, name);
      const found = await existing(stat(path));
      if (found !== undefined && found.mtimeMs < before) await rm(path, { force: true });
    }
  }

  /** The last two digits are random, so that no directory gets too many entries. */
  #folder(tenantId: string, blobId: string): string {
    return join(this.#root, tenantName(tenantId), blobId.slice(-2));
  }

  #path(tenantId: string, ref: BodyRef): string {
    return join(this.#folder(tenantId, ref.blobId), bodyRefText(ref));
  }

  async #readError(error: unknown): Promise<BlobError> {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== "ENOENT" && code !== "ENOTDIR") {
      return blobErrorOf(error, "the body could not be read");
    }
    const isMounted = (await existing(stat(join(this.#root, OWNER_FILE)))) !== undefined;
    if (isMounted) return new BlobError("missing", "there is no such body", error);
    const text = `the directory ${this.#root} is not there, or its file ${OWNER_FILE} is missing`;
    return new BlobError("unavailable", text, error);
  }
}

function wrongLength({ length }: BodyRef, size: number): BlobError {
  return new BlobError("corrupt", `the stored body has ${size} bytes instead of ${length}`);
}

/** Creates what is missing, and makes the new names durable. */
async function makeDirectory(path: string): Promise<void> {
  const first = await mkdir(path, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let folder = path; ; folder = dirname(folder)) {
    await syncFolder(dirname(folder));
    if (folder === first || folder === dirname(folder)) return;
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** Undefined if the file is gone. */
async function existing<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

// Digested file: writes a source of bytes to a new file and computes length and SHA-256 on the way.
// The next part is read when the previous one is written, so memory does not grow with the source.

export interface Digested {
  readonly length: number;
  readonly sha256: string;
}

interface DigestedFileOptions extends Pick<BlobUpload, "source" | "maxBytes" | "signal"> {
  readonly path: string;
  /** The file is durable when the promise resolves. */
  readonly sync: boolean;
}

/** If it rejects, the file does not exist. Only the owner may read it. */
export async function writeDigested(options: DigestedFileOptions): Promise<Digested> {
  const { path } = options;
  const file = await open(path, "wx", 0o600);
  try {
    try {
      return await copy(file, options);
    } finally {
      await file.close();
    }
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  }
}

async function copy(file: FileHandle, options: DigestedFileOptions): Promise<Digested> {
  const { source, maxBytes, signal, sync } = options;
  const hash = createHash("sha256");
  let length = 0;
  for await (const chunk of source instanceof Uint8Array ? [source] : marked(source)) {
    signal?.throwIfAborted();
    length += chunk.length;
    if (length > maxBytes) throw tooLarge(maxBytes);
    hash.update(chunk);
    await writeAll(file, chunk);
  }
  signal?.throwIfAborted();
  if (sync) await file.sync();
  return { length, sha256: hash.digest("hex") };
}

/** An error of the source, not of the blob store. */
class SourceError extends Error {
  override readonly name = "SourceError";
}

async function* marked(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* source;
  } catch (error) {
    throw new SourceError("the source of a body failed", { cause: error });
  }
}

/** The error of an upload: the reason of an abort, the error of the source, or a `BlobError`. */
export function uploadError(
  error: unknown,
  { signal }: Pick<BlobUpload, "signal">,
  faultOf: (error: unknown, what: string) => BlobError,
): unknown {
  if (signal?.aborted) return signal.reason;
  return error instanceof SourceError
    ? error.cause
    : faultOf(error, "the body could not be stored");
}

/** A write may take only a part, above all when the disk is nearly full. */
async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let at = 0; at < chunk.length; ) {
    const { bytesWritten } = await file.write(chunk, at);
    at += bytesWritten;
  }
}

function tooLarge(maxBytes: number): BlobError {
  return new BlobError("too-large", `the body must be at most ${maxBytes} bytes`);
}
