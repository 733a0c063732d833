/**
 * Open file limit: how many files this process may open. Each attempt uses one for its connection, so
 * the limit bounds how many attempts may run at once.
 */
import { closeSync, openSync, readFileSync } from "node:fs";
import { devNull } from "node:os";

/** Enough for 10,000 attempts a second of 100 ms each. More connections cost memory, not time. */
const MAX_DEFAULT = 1024;

/** Undefined: not known, because this system has no `/proc`. */
export function openFileLimit(): number | undefined {
  try {
    return softLimitIn(readFileSync("/proc/self/limits", "utf8"));
  } catch {
    return undefined;
  }
}

/** The soft limit in the text of `/proc/self/limits`. */
export function softLimitIn(limits: string): number | undefined {
  const digits = /^Max open files\s+(\d+)/mu.exec(limits)?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/**
 * Whether this process can open no file now. A lookup that could open no socket reports that the DNS
 * server refused the connection, so the error alone does not show the cause.
 */
export function lacksFiles(): boolean {
  try {
    closeSync(openSync(devNull, "r"));
    return false;
  } catch {
    return true;
  }
}

/** Half of the files: the rest is for idle connections, requests to the API and the store. */
export function defaultAttemptsAtOnce(openFiles: number | undefined): number {
  if (openFiles === undefined) return MAX_DEFAULT;
  return Math.max(1, Math.min(MAX_DEFAULT, Math.floor(openFiles / 2)));
}
