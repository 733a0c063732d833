/**
 * Blob store: the contract of a place for large bodies: a directory or a bucket. A blob never changes.
 * A failure is a `BlobError`, which says what it means for the task.
 */

import { createHash } from "node:crypto";
import { Readable } from "node:stream";

export interface BlobStore {
  /** For people, without credentials. */
  readonly name: string;

  /**
   * Stores the bytes under a new name, and resolves once they are durable. If it rejects, or the signal
   * is aborted, nothing stays under that name. Bounded memory, however long the source is.
   */
  write(upload: BlobUpload): Promise<BodyRef>;

  /** Rejects with `missing` or `corrupt` unless a blob of this name and length exists. */
  check(tenantId: string, ref: BodyRef): Promise<void>;

  /** The bytes as stored; the caller verifies them. Rejects with `missing` or `corrupt`. */
  open(tenantId: string, ref: BodyRef, signal?: AbortSignal): Promise<Readable>;

  /** Does nothing if there is no such blob. */
  remove(tenantId: string, ref: BodyRef): Promise<void>;

  /** All blobs, in any order. It also removes what crashed uploads have left. */
  list(now: number): AsyncIterable<StoredBlob>;

  /**
   * The id of the store whose blobs these are. `storeId` is written if there is none yet. The blobs of
   * another store must not be touched: only their own store knows which of them are in use.
   */
  owner(storeId: string): Promise<string>;

  close(): Promise<void>;
}

export interface BlobUpload {
  readonly tenantId: string;
  readonly blobId: string;
  readonly source: Uint8Array | AsyncIterable<Uint8Array>;
  /** A longer source is refused with `too-large`. */
  readonly maxBytes: number;
  readonly signal?: AbortSignal | undefined;
}

export interface StoredBlob {
  readonly tenantId: string;
  readonly ref: BodyRef;
  /** Epoch ms. */
  readonly storedAt: number;
}

export type BlobFault =
  /** There is no such blob. */
  | "missing"
  /** The bytes are not those that were stored. */
  | "corrupt"
  /** The blob store fails or does not respond. It may work later. */
  | "unavailable"
  /** There is no space left. */
  | "full"
  /** The source is longer than allowed. */
  | "too-large";

export class BlobError extends Error {
  override readonly name = "BlobError";
  readonly fault: BlobFault;

  constructor(fault: BlobFault, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.fault = fault;
  }
}

/** The error as a `BlobError`; any other error means that the blob store fails. */
export function blobErrorOf(error: unknown, what: string): BlobError {
  if (error instanceof BlobError) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  const fault = code === "ENOSPC" || code === "EDQUOT" ? "full" : "unavailable";
  return new BlobError(fault, `${what}: ${code ?? message}`, error);
}

/** Tenants are named in hexadecimal: no other spelling is safe on every file system. */
export function tenantName(tenantId: string): string {
  const bytes = Buffer.from(tenantId, "utf8");
  if (bytes.length > 0 && bytes.length <= MAX_TENANT_BYTES) return bytes.toString("hex");
  const text = `only tenants with a name of 1 to ${MAX_TENANT_BYTES} bytes can store large bodies`;
  throw new BlobError("unavailable", `${text}, got ${bytes.length}`);
}

/** The longest file name is 255 bytes. */
const MAX_TENANT_BYTES = 120;

/** Undefined if it is the name of no tenant. */
export function tenantOfName(name: string): string | undefined {
  if (!/^(?:[\da-f]{2})+$/.test(name)) return undefined;
  const tenantId = Buffer.from(name, "hex").toString("utf8");
  return Buffer.from(tenantId, "utf8").toString("hex") === name ? tenantId : undefined;
}

// Body ref: the name of a body in the blob store. It contains the length and the SHA-256 of the
// bytes, so that every reader can verify them. Tenants have separate names: a ref of one tenant
// finds nothing of another.

export interface BodyRef {
  /** UUIDv7: new for every upload, so that nobody else uses the name. */
  readonly blobId: string;
  /** In bytes. At least 1. */
  readonly length: number;
  /** In lower-case hexadecimal. */
  readonly sha256: string;
}

const FORM =
  /^([\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12})\.([1-9]\d{0,15})\.([\da-f]{64})$/;

export function bodyRefText({ blobId, length, sha256 }: BodyRef): string {
  return `${blobId}.${length}.${sha256}`;
}

/** Undefined if the text is not a ref. */
export function parseBodyRef(text: string): BodyRef | undefined {
  const [, blobId = "", length = "", sha256 = ""] = FORM.exec(text) ?? [];
  const bytes = Number(length);
  return blobId !== "" && Number.isSafeInteger(bytes)
    ? { blobId, length: bytes, sha256 }
    : undefined;
}

/**
 * The label of a task whose body is in the blob store; its value is the id of the blob. Every store has
 * an index of labels, which says whether a stored task uses a blob.
 */
export const BODY_LABEL = "redrive.body";

// Body stream: verifies the bytes of a blob while they are read. The last part is held back until
// all bytes are known to be right, so that a reader who counts never gets a complete wrong body.

/** The stream fails with a `BlobError`. Destroying it destroys the source. */
export function verifiedStream(source: Readable, ref: BodyRef): Readable {
  const bytes = verified(source, ref);
  const stream = Readable.from(bytes, { objectMode: false, highWaterMark: BUFFER_BYTES });
  // It may fail while nobody reads it, which must not end the process. A reader gets the error, too.
  stream.on("error", () => {});
  // A stream that is destroyed before its first read never starts the generator.
  stream.once("close", () => source.destroy());
  return stream;
}

const BUFFER_BYTES = 65_536;

async function* verified(source: Readable, ref: BodyRef): AsyncGenerator<Uint8Array> {
  const hash = createHash("sha256");
  let length = 0;
  let held: Uint8Array | undefined;
  try {
    for await (const chunk of source as AsyncIterable<Uint8Array>) {
      if (chunk.length === 0) continue;
      length += chunk.length;
      if (length > ref.length) break;
      hash.update(chunk);
      if (held !== undefined) yield held;
      held = chunk;
    }
  } catch (error) {
    throw blobErrorOf(error, "the body could not be read");
  }
  if (length !== ref.length || hash.digest("hex") !== ref.sha256) {
    throw new BlobError("corrupt", "the stored body is not the one that was accepted");
  }
  if (held !== undefined) yield held;
}
