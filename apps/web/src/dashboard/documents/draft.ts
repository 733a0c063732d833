/** Draft: a document in the address, for example from the simulator, that the user wants to apply. */
import { isObject } from "@redrive/core";
import type { Query } from "../routing/route.ts";
import type { Document } from "./document-kinds.ts";

/** Longer addresses are not opened by every browser and proxy. */
const MAX_CHARACTERS = 30_000;

/** Undefined: the address has none, or it is damaged. */
export function readDraftOf(query: Query): Document | undefined {
  const text = query["draft"];
  if (text === undefined || text.length > MAX_CHARACTERS) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
