/**
 * JSON lines: formats a value as indented JSON. A list of plain values stays on one line, and a
 * typed array is written as a list.
 */

export function jsonLines(value: unknown): readonly string[] {
  const asList = (_: string, part: unknown) =>
    part instanceof Float64Array ? Array.from(part) : part;
  const indented = JSON.stringify(value, asList, 2);
  // Matches lists that contain no lists or objects. JSON strings contain no raw line breaks.
  const joined = indented.replace(/\[\n([^[\]{}]*?)\n *\]/gu, (_, entries: string) => {
    return `[${entries.trim().replace(/\n */gu, " ")}]`;
  });
  return joined.split("\n");
}
