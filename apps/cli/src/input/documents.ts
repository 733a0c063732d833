/**
 * Documents: JSON files that a command is pointed at, read whole. A name that is not readable, or a
 * file that is not JSON, is told with its path.
 */
import { readFileSync } from "node:fs";
import { causedError, quote, RedriveError } from "@redrive/core";

/** No document of Redrive comes near this; a longer file is a mistake. */
const MAX_BYTES = 256 * 1024 * 1024;

/** The text of a file; `-` is standard input. */
export function readText(path: string): string {
  return readBytes(path)
    .toString("utf8")
    .replace(/^\uFEFF/u, "");
}

export function readBytes(path: string): Buffer {
  try {
    const bytes = readFileSync(path === "-" ? 0 : path);
    if (bytes.length <= MAX_BYTES) return bytes;
  } catch (cause) {
    const reason = readFailure(cause as NodeJS.ErrnoException);
    const text = `cannot read ${quote(path)}: ${reason}`;
    throw causedError("INVALID_ARGUMENT", text, cause);
  }
  throw new RedriveError("INVALID_ARGUMENT", `cannot read ${quote(path)}: above 256 MB`);
}

export function readJson(path: string): unknown {
  const text = readText(path);
  try {
    return JSON.parse(text);
  } catch (cause) {
    const message = `${quote(path)} must be JSON: ${(cause as Error).message}`;
    throw causedError("INVALID_ARGUMENT", message, cause);
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file",
  EISDIR: "it is a folder",
  EACCES: "permission denied",
};

function readFailure(error: NodeJS.ErrnoException): string {
  return REASONS[error.code ?? ""] ?? error.message;
}

/** Runs `use` and puts the file's name before whatever it refuses. */
export function withFileName<T>(path: string, use: () => T): T {
  try {
    return use();
  } catch (cause) {
    if (!(cause instanceof RedriveError)) throw cause;
    throw causedError(cause.code, `${path}: ${cause.message}`, cause);
  }
}
