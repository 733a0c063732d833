/**
 * Cycles: no file imports itself through other files. Imports of types count: two files whose types
 * need each other cannot be read one after the other.
 */
import { posix } from "node:path";
import { type Finding, isCode, type Source } from "./source.ts";
import { importsOf } from "./tokens.ts";

type Graph = ReadonlyMap<string, readonly string[]>;

export function cycles(sources: readonly Source[]): Finding[] {
  const graph = graphOf(sources.filter(isCode));
  const done = new Set<string>();
  const found = new Map<string, Finding>();
  for (const path of graph.keys()) {
    const cycle = cycleFrom(graph, done, [], path);
    if (cycle === undefined) continue;
    const message = `import cycle: ${cycle.join(" -> ")}`;
    // One cycle is found from each of its files, and from each file that leads to it.
    const key = [...new Set(cycle)].sort().join();
    if (!found.has(key)) found.set(key, { path: cycle[0] ?? path, line: 1, message });
  }
  return [...found.values()];
}

function graphOf(sources: readonly Source[]): Graph {
  return new Map(
    sources.map(({ path, text }) => {
      const relative = importsOf(text).filter(({ specifier }) => specifier.startsWith("."));
      return [path, relative.map(({ specifier }) => posix.join(posix.dirname(path), specifier))];
    }),
  );
}

/** Searches depth first. `trail` is the path to this file; a file on it closes a cycle. */
function cycleFrom(
  graph: Graph,
  done: Set<string>,
  trail: readonly string[],
  path: string,
): readonly string[] | undefined {
  const start = trail.indexOf(path);
  if (start >= 0) return [...trail.slice(start), path];
  if (done.has(path)) return undefined;
  for (const next of graph.get(path) ?? []) {
    const cycle = cycleFrom(graph, done, [...trail, path], next);
    if (cycle !== undefined) return cycle;
  }
  done.add(path);
  return undefined;
}
