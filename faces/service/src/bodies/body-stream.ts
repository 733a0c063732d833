/**
 * Body stream: verifies the bytes of a blob while they are read. The last part is held back until all
 * bytes are known to be right, so that a reader who counts never gets a complete wrong body.
 */
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { BlobError, blobErrorOf } from "./blob-store.ts";
import type { BodyRef } from "./body-ref.ts";

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
