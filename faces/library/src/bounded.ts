/**
 * Bounded: maps whose keys come from callers' data, and which must not grow with it for ever.
 */

/** More keys than this are not told apart: the least recently written is forgotten. */
const KEYS_MOST = 10_000;

export function put<Value>(map: Map<string, Value>, key: string, value: Value): void {
  map.delete(key);
  map.set(key, value);
  const [oldest = key] = map.keys();
  if (map.size > KEYS_MOST) map.delete(oldest);
}
