/**
 * Bounded map: limits the size of maps whose keys come from callers' data.
 */

/** With more keys than this, the least recently written key is deleted. */
const MAX_KEYS = 10_000;

export function setBounded<Value>(map: Map<string, Value>, key: string, value: Value): void {
  map.delete(key);
  map.set(key, value);
  const [oldest = key] = map.keys();
  if (map.size > MAX_KEYS) map.delete(oldest);
}
