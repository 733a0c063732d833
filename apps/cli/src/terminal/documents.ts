/** Documents: reads the files that a command gets as arguments. Every error names the file. */
import { readFileSync } from "node:fs";
import { causedError, quote, RedriveError } from "@redrive/core";

/** Far above any real document: a larger file is a mistake. */
const MAX_BYTES = 256 * 1024 * 1024;

/** Reads a file as UTF-8. `-` is standard input. */
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
    throw unreadable(path, cause);
  }
  throw new RedriveError(
    "INVALID_ARGUMENT",
    `cannot read ${quote(path)}: it is larger than 256 MB`,
  );
}

export function readJson(path: string): unknown {
  return parseJson(readText(path), quote(path));
}

/** Parses a text that may hold secrets, so the error has no part of it. `name` is the first word of the error. */
export function parseJson(text: string, name: string, hint = ""): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    // Node quotes the text around an unexpected token, and has no other details then.
    const reason = (cause as Error).message.replace(/, (?:\.\.\.)?".*$/su, "");
    throw causedError("INVALID_ARGUMENT", `${name} must be JSON: ${reason}${hint}`, cause);
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file",
  EISDIR: "it is a folder",
  EACCES: "permission denied",
};

/** The error for a file that the system cannot read. */
export function unreadable(path: string, cause: unknown): RedriveError {
  const reason = readFailure(cause as NodeJS.ErrnoException);
  return causedError("INVALID_ARGUMENT", `cannot read ${quote(path)}: ${reason}`, cause);
}

function readFailure(error: NodeJS.ErrnoException): string {
  return REASONS[error.code ?? ""] ?? error.message;
}

/** Runs `use` and adds the file name to the message of a `RedriveError`. */
export function withFileName<T>(path: string, use: () => T): T {
  try {
    return use();
  } catch (cause) {
    if (!(cause instanceof RedriveError)) throw cause;
    throw causedError(cause.code, `${path}: ${cause.message}`, cause);
  }
}
