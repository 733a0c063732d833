/**
 * JSON lines: a document as people write it by hand: indented, lists of plain values on one line.
 * Typed arrays are written as lists.
 */

export function jsonLines(value: unknown): readonly string[] {
  const asList = (_: string, part: unknown) =>
    part instanceof Float64Array ? Array.from(part) : part;
  const indented = JSON.stringify(value, asList, 2);
  // A list without lists or objects in it; JSON's strings hold no line breaks of their own.
  const joined = indented.replace(/\[\n([^[\]{}]*?)\n *\]/gu, (_, entries: string) => {
    return `[${entries.trim().replace(/\n */gu, " ")}]`;
  });
  return joined.split("\n");
}
