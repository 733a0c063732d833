/** Fresh: whether a value that was read from the store may be used without reading it again. */
import type { Store } from "../model/store.ts";

export interface ReadValue {
  readonly readAt: number;
}

/** In a shared store, where another node may have changed the value. */
const KNOWN_MS = 2000;

/** The clock may have been set back since, so a value from the future is old too. */
export function isFresh(
  { readAt }: ReadValue,
  { exclusive }: Pick<Store, "exclusive">,
  now: number,
): boolean {
  return exclusive || Math.abs(now - readAt) < KNOWN_MS;
}
