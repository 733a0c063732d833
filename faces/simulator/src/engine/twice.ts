/** Twice: the same numbers in twice the room, for arrays that grow. */

export function twice<T extends Int32Array | Float64Array>(column: T): T {
  const larger = new (column.constructor as new (length: number) => T)(2 * column.length);
  larger.set(column);
  return larger;
}
