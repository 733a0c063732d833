/**
 * Operation order: sorts the paths of the API description for people who read it. A collection comes
 * first, then one of its items, then the other operations; creating comes before reading.
 */

type Paths = Readonly<Record<string, object | undefined>>;

const METHODS = ["post", "get", "put", "delete"];

/** The same document with its paths in reading order. The parts of the API keep their order. */
export function inReadingOrder<T extends { readonly paths?: Paths | undefined }>(document: T): T {
  const { paths = {} } = document;
  const roots = [...new Set(Object.keys(paths).map(rootOf))];
  const sorted = Object.entries(paths).toSorted(
    ([one], [other]) =>
      roots.indexOf(rootOf(one)) - roots.indexOf(rootOf(other)) ||
      rankOf(one) - rankOf(other) ||
      (one < other ? -1 : 1),
  );
  return {
    ...document,
    paths: Object.fromEntries(sorted.map(([path, item]) => [path, sortedMethods(item)])),
  };
}

function rootOf(path: string): string {
  return path.split("/")[1] ?? "";
}

/** The collection, one of its items, anything else. */
function rankOf(path: string): number {
  const second = path.split("/")[2];
  if (second === undefined) return 0;
  return second.startsWith("{") ? 1 : 2;
}

function sortedMethods(item: object = {}): object {
  return Object.fromEntries(
    Object.entries(item).toSorted(([one], [other]) => methodRank(one) - methodRank(other)),
  );
}

/** Anything else comes last: a method that is not listed, and what all methods of a path share. */
function methodRank(key: string): number {
  const rank = METHODS.indexOf(key);
  return rank < 0 ? METHODS.length : rank;
}
