/**
 * Bodies: decides where the body of a task is stored, and reads it back. Small bodies stay in the row of
 * the task. Larger ones go to the blob store before the task is created, so that a task never refers to
 * a body that is not durable.
 */
import type { Readable } from "node:stream";
import { quote } from "@redrive/core";
import { serviceError } from "../model/errors.ts";
import type { NewTask } from "../model/task.ts";
import {
  BlobError,
  type BlobStore,
  blobErrorOf,
  bodyRefText,
  parseBodyRef,
  verifiedStream,
} from "./blob-store.ts";

/** Bodies that are at most this long are stored in the row of the task. */
const DEFAULT_INLINE_BYTES = 65_536;
/** A row that is much longer slows down every commit that it is part of. */
export const MAX_INLINE_BYTES = 1_048_576;

const DEFAULT_MAX_BODY_BYTES = 1024 ** 3;
/** The longest object that S3 takes in one call. */
export const MAX_BODY_BYTES = 5 * 1024 ** 3;

/** Uploads that one tenant may have at once, and all together. Each holds a connection and a file. */
const UPLOADS_PER_TENANT = 16;
const UPLOADS = 128;

interface BodiesOptions {
  /** Null: there is no place for large bodies. */
  readonly blobs: BlobStore | null;
  readonly newBlobId: () => string;
  readonly inlineBytes?: number | undefined;
  readonly maxBodyBytes?: number | undefined;
}

/** Where a body is: in the row, or in the blob store. */
export type StoredBody =
  | { readonly body: Uint8Array; readonly bodyRef: null }
  | { readonly body: null; readonly bodyRef: string };

/** The bytes of a body that arrives in parts: a stream of Node or of the web, or a generator. */
export type BodySource = AsyncIterable<Uint8Array>;

export class Bodies {
  readonly maxBodyBytes: number;
  readonly inlineBytes: number;
  readonly #blobs: BlobStore | null;
  readonly #newBlobId: () => string;
  /** Uploads in progress, by tenant. */
  readonly #uploads = new Map<string, number>();
  #uploadCount = 0;

  constructor(options: BodiesOptions) {
    this.#blobs = options.blobs;
    this.#newBlobId = options.newBlobId;
    this.inlineBytes = options.inlineBytes ?? DEFAULT_INLINE_BYTES;
    this.maxBodyBytes = options.maxBodyBytes ?? DEFAULT_MAX_BODY_BYTES;
  }

  get blobs(): BlobStore | null {
    return this.#blobs;
  }

  /** Throws `BODY_TOO_LARGE` for a body of this many bytes. */
  assertFits(bytes: number): void {
    if (bytes > this.maxBodyBytes) throw this.#tooLarge(`${bytes} bytes`);
    if (bytes > this.inlineBytes && this.#blobs === null) throw this.#noBlobs();
  }

  /** Stores bytes that do not fit into the row. */
  async storeLarge(tenantId: string, bytes: Uint8Array): Promise<string> {
    this.assertFits(bytes.length);
    return this.#write(tenantId, bytes, undefined);
  }

  /**
   * Stores a body that arrives in parts: in the blob store unless it fits into a row. Throws
   * `TOO_MANY_REQUESTS`, `BODY_TOO_LARGE`, `STORE_FULL` or `BODY_STORE_UNAVAILABLE`; then nothing is
   * stored.
   */
  store(tenantId: string, source: BodySource, signal?: AbortSignal): Promise<StoredBody> {
    return this.#receive(tenantId, source, async (parts) => {
      const { bytes, isComplete } = await readUpTo(this.inlineBytes, parts);
      signal?.throwIfAborted();
      if (isComplete) return { body: bytes, bodyRef: null };
      return { body: null, bodyRef: await this.#write(tenantId, joined(bytes, parts), signal) };
    });
  }

  /** Like `store`, but in the blob store however short the body is. An empty body is refused. */
  upload(tenantId: string, source: BodySource, signal?: AbortSignal): Promise<string> {
    return this.#receive(tenantId, source, async (parts) => {
      const { bytes } = await readUpTo(0, parts);
      if (bytes.length === 0) throw serviceError("INVALID_ARGUMENT", "the body must not be empty");
      return this.#write(tenantId, joined(bytes, parts), signal);
    });
  }

  async #receive<T>(
    tenantId: string,
    source: BodySource,
    store: (parts: AsyncIterator<Uint8Array>) => Promise<T>,
  ): Promise<T> {
    this.#enter(tenantId);
    const parts = source[Symbol.asyncIterator]();
    try {
      return await store(parts);
    } finally {
      this.#leave(tenantId);
      // Ends a source that was not read to its end.
      await parts.return?.();
    }
  }

  async #write(
    tenantId: string,
    source: Uint8Array | BodySource,
    signal: AbortSignal | undefined,
  ): Promise<string> {
    if (this.#blobs === null) throw this.#noBlobs();
    const { maxBodyBytes: maxBytes } = this;
    const upload = { tenantId, blobId: this.#newBlobId(), source, maxBytes, signal };
    try {
      return bodyRefText(await this.#blobs.write(upload));
    } catch (error) {
      throw this.#codedError(error);
    }
  }

  /** Throws `BODY_NOT_FOUND` unless the tenant has stored such a body. */
  async assertExists(tenantId: string, text: string): Promise<void> {
    const ref = parseBodyRef(text);
    if (ref === undefined || this.#blobs === null) throw notFound(text);
    try {
      await this.#blobs.check(tenantId, ref);
    } catch (error) {
      const { fault } = blobErrorOf(error, "");
      throw fault === "missing" || fault === "corrupt" ? notFound(text) : this.#codedError(error);
    }
  }

  /** The verified bytes of a stored body. Rejects with `BlobError`, and so does the stream. */
  async open(
    { tenantId, bodyRef }: Pick<NewTask, "tenantId" | "bodyRef">,
    signal?: AbortSignal,
  ): Promise<{ readonly stream: Readable; readonly length: number }> {
    const ref = parseBodyRef(bodyRef ?? "");
    if (ref === undefined) throw new BlobError("corrupt", "the name of the body is not valid");
    if (this.#blobs === null) throw new BlobError("unavailable", NO_BLOBS);
    const stream = verifiedStream(await this.#blobs.open(tenantId, ref, signal), ref);
    return { stream, length: ref.length };
  }

  /** Removes a body that no task uses. A failure does not matter: the collector removes it later. */
  async discard(tenantId: string, text: string): Promise<void> {
    const ref = parseBodyRef(text);
    if (ref !== undefined) await this.#blobs?.remove(tenantId, ref).catch(() => {});
  }

  #enter(tenantId: string): void {
    const count = this.#uploads.get(tenantId) ?? 0;
    if (count >= UPLOADS_PER_TENANT) throw tooManyUploads(UPLOADS_PER_TENANT, "a tenant");
    if (this.#uploadCount >= UPLOADS) throw tooManyUploads(UPLOADS, "the service");
    this.#uploads.set(tenantId, count + 1);
    this.#uploadCount++;
  }

  #leave(tenantId: string): void {
    const left = (this.#uploads.get(tenantId) ?? 1) - 1;
    if (left === 0) this.#uploads.delete(tenantId);
    else this.#uploads.set(tenantId, left);
    this.#uploadCount--;
  }

  /** Errors of the source itself, and aborts, stay as they are. */
  #codedError(error: unknown): unknown {
    if (!(error instanceof BlobError)) return error;
    if (error.fault === "too-large") return this.#tooLarge("more");
    const code = error.fault === "full" ? "STORE_FULL" : "BODY_STORE_UNAVAILABLE";
    return serviceError(code, error.message, error);
  }

  #tooLarge(got: string): Error {
    const text = `the body must be at most ${this.maxBodyBytes} bytes, got ${got}`;
    return serviceError("BODY_TOO_LARGE", text);
  }

  #noBlobs(): Error {
    const text = `the body must be at most ${this.inlineBytes} bytes, because ${NO_BLOBS}`;
    return serviceError("BODY_TOO_LARGE", text);
  }
}

const NO_BLOBS =
  "this service has no place for larger ones: start it with --blobs s3://BUCKET/PREFIX, or with --blobs file:DIR in a directory that all its nodes share";

/** Reads until the source ends, or is longer than `max` bytes. */
async function readUpTo(
  max: number,
  parts: AsyncIterator<Uint8Array>,
): Promise<{ readonly bytes: Uint8Array; readonly isComplete: boolean }> {
  const read: Uint8Array[] = [];
  let length = 0;
  while (length <= max) {
    const { done, value } = await parts.next();
    if (done) return { bytes: Buffer.concat(read, length), isComplete: true };
    if (!(value instanceof Uint8Array)) throw notBytes(value);
    read.push(value);
    length += value.length;
  }
  return { bytes: Buffer.concat(read, length), isComplete: false };
}

async function* joined(first: Uint8Array, rest: AsyncIterator<Uint8Array>): BodySource {
  yield first;
  for (;;) {
    const { done, value } = await rest.next();
    if (done) return;
    if (!(value instanceof Uint8Array)) throw notBytes(value);
    yield value;
  }
}

function notBytes(value: unknown): Error {
  const text = `a body that arrives in parts must consist of bytes (Uint8Array), got ${typeof value}`;
  return serviceError("INVALID_ARGUMENT", text);
}

function notFound(text: string): Error {
  return serviceError("BODY_NOT_FOUND", `there is no stored body ${quote(text)}`);
}

function tooManyUploads(max: number, who: string): Error {
  return serviceError("TOO_MANY_REQUESTS", `${who} may have ${max} uploads at once`);
}
