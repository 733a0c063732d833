/** Store file: what the commands that work on the file of a store share. */
import { causedError, RedriveError } from "@redrive/core";
import { DEFAULT_STORE, storePath } from "./service-config.ts";

/** Throws `INVALID_ARGUMENT` for a store in memory or on a server. */
export function storeFile(store: string = DEFAULT_STORE): string {
  const path = storePath(store);
  if (path !== undefined) return path;
  throw new RedriveError("INVALID_ARGUMENT", "only a SQLite store has a file: use sqlite:PATH");
}

/** Gives failures of the file a code: of the system a wrong path, of SQLite a damaged file. */
export async function withFileErrors<T>(work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Error) || error instanceof RedriveError) throw error;
    if (error.name === "StoreFullError") throw causedError("STORE_FULL", error.message, error);
    const code = "syscall" in error ? "INVALID_ARGUMENT" : "STORE_DAMAGED";
    throw causedError(code, error.message, error);
  }
}
