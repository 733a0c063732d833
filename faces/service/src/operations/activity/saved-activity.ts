/** Saved activity: the counts of a tenant on one node, as the text of a stored document. */
import { isObject } from "@redrive/core";
import { MINUTES } from "./minute-counts.ts";

export interface SavedActivity {
  /** The number of the last minute. */
  readonly minute: number;
  /** Sixty counts per measure. A measure of another version may be missing. */
  readonly counts: Readonly<Partial<Record<string, readonly number[]>>>;
}

const VERSION = 1;

export function encodeActivity({ minute, counts }: SavedActivity): string {
  return JSON.stringify({ version: VERSION, minute, counts });
}

/** Undefined for the document of another version, which is then not counted. */
export function decodeActivity(text: string): SavedActivity | undefined {
  const value = parsed(text);
  if (!isObject(value) || value["version"] !== VERSION) return undefined;
  const { minute, counts } = value;
  if (!Number.isSafeInteger(minute) || !isObject(counts)) return undefined;
  const known = Object.entries(counts).filter(([, list]) => isCounts(list));
  return {
    minute: minute as number,
    counts: Object.fromEntries(known) as SavedActivity["counts"],
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isCounts(list: unknown): boolean {
  return (
    Array.isArray(list) &&
    list.length === MINUTES &&
    list.every((count) => typeof count === "number" && count >= 0)
  );
}
