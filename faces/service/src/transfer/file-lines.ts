/** File lines: splits the bytes of a file into lines, of which it keeps one at a time in memory. */
import { invalidImport } from "./file-format.ts";

/** Far above any row: a body has at most 64 KiB, and a document is small. */
export const MAX_LINE_BYTES = 16 * 1024 * 1024;

export interface FileLine {
  /** From 1. */
  readonly number: number;
  /** Without its line break. */
  readonly bytes: Buffer;
  /** False: the file ends before the line break. */
  readonly isComplete: boolean;
}

const LINE_BREAK = 10;

export async function* fileLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<FileLine> {
  let number = 0;
  let parts: Buffer[] = [];
  let length = 0;
  const add = (part: Buffer) => {
    parts.push(part);
    length += part.length;
    if (length <= MAX_LINE_BYTES) return;
    throw invalidImport(`line ${number + 1} is longer than ${MAX_LINE_BYTES} bytes`);
  };
  for await (const chunk of chunks) {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
    let start = 0;
    for (let end = bytes.indexOf(LINE_BREAK); end >= 0; end = bytes.indexOf(LINE_BREAK, start)) {
      add(bytes.subarray(start, end));
      yield { number: ++number, bytes: Buffer.concat(parts, length), isComplete: true };
      parts = [];
      length = 0;
      start = end + 1;
    }
    if (start < bytes.length) add(bytes.subarray(start));
  }
  if (length > 0) {
    yield { number: number + 1, bytes: Buffer.concat(parts, length), isComplete: false };
  }
}
