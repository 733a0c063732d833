/**
 * Output file: a new file that has its name only when it is complete and on disk. Until then, the name
 * ends with `.part`. Only its owner can read it, because it contains bodies and headers.
 */
import { existsSync } from "node:fs";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { causedError, quote, RedriveError } from "@redrive/core";

/** Larger writes are faster than one per line. */
const WRITE_LENGTH = 1_048_576;

export interface OutputFile {
  write(text: string): Promise<void>;
}

/** Calls `fill` with the file. If it fails, nothing is left. Throws `INVALID_ARGUMENT` if it exists. */
export async function writeNewFile<T>(
  path: string,
  fill: (file: OutputFile) => Promise<T>,
): Promise<T> {
  assertNew(path);
  const part = `${path}.part`;
  try {
    const handle = await writing(path, () => open(part, "w", 0o600));
    const result = await fillFile(path, handle, fill);
    assertNew(path);
    await writing(path, () => rename(part, path));
    return result;
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
}

async function fillFile<T>(
  path: string,
  handle: FileHandle,
  fill: (file: OutputFile) => Promise<T>,
): Promise<T> {
  let waiting: string[] = [];
  let length = 0;
  const flush = async () => {
    const text = waiting.join("");
    waiting = [];
    length = 0;
    await writing(path, () => handle.appendFile(text));
  };
  try {
    const result = await fill({
      async write(text) {
        waiting.push(text);
        length += text.length;
        if (length >= WRITE_LENGTH) await flush();
      },
    });
    await flush();
    await writing(path, () => handle.sync());
    return result;
  } finally {
    await handle.close();
  }
}

function assertNew(path: string): void {
  if (!existsSync(path)) return;
  const message = `--out must be a new file, got ${quote(path)}: it exists; name another one`;
  throw new RedriveError("INVALID_ARGUMENT", message);
}

async function writing<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    const message = `cannot write ${quote(path)}: ${(cause as Error).message}`;
    throw causedError("INVALID_ARGUMENT", message, cause);
  }
}
