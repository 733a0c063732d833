/**
 * Digested file: writes a source of bytes to a new file and computes length and SHA-256 on the way. The
 * next part is read when the previous one is written, so memory does not grow with the source.
 */
import { createHash } from "node:crypto";
import { type FileHandle, open, rm } from "node:fs/promises";
import { BlobError, type BlobUpload } from "./blob-store.ts";

export interface Digested {
  readonly length: number;
  readonly sha256: string;
}

export interface DigestedFileOptions extends Pick<BlobUpload, "source" | "maxBytes" | "signal"> {
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

export function tooLarge(maxBytes: number): BlobError {
  return new BlobError("too-large", `the body must be at most ${maxBytes} bytes`);
}
