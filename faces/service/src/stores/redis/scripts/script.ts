/** Script: a Lua program that a Redis server runs as one step, and the name under which it keeps it. */
import { createHash } from "node:crypto";

export interface Script {
  readonly text: string;
  /** The SHA-1 of the text. */
  readonly sha: string;
}

/** Joins parts of a program: functions first, then the code that uses them. */
export function script(...parts: readonly string[]): Script {
  const text = parts.join("\n");
  return { text, sha: createHash("sha1").update(text).digest("hex") };
}
