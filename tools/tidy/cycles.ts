/**
 * Cycles: finds files that import themselves through other files. Type-only imports do not count:
 * the compiler erases them, so they do not affect the load order.
 */
import { posix } from "node:path";
import { type Finding, isCode, type Source } from "./source.ts";
import { importsOf } from "./tokens.ts";

type Graph = ReadonlyMap<string, readonly string[]>;

export function cycles(sources: readonly Source[]): Finding[] {
  const graph = graphOf(sources.filter(isCode));
  const done = new Set<string>();
  return [...graph.keys()].flatMap((path) => {
    const cycle = cycleFrom(graph, done, [], path);
    if (cycle === undefined) return [];
    return [{ path: cycle[0] ?? path, line: 1, message: `import cycle: ${cycle.join(" -> ")}` }];
  });
}

function graphOf(sources: readonly Source[]): Graph {
  return new Map(
    sources.map(({ path, text }) => {
      const relative = importsOf(text).filter(
        ({ specifier, isType }) => specifier.startsWith(".") && !isType,
      );
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
