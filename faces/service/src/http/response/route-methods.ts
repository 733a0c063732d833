/**
 * Known paths: which methods a path has, so that a wrong method is told from a wrong path.
 */

export class RouteMethods {
  readonly #methods = new Map<string, { readonly pattern: RegExp; readonly names: Set<string> }>();

  add(path: string, methods: string | readonly string[]): void {
    const known = this.#methods.get(path) ?? { pattern: patternOf(path), names: new Set<string>() };
    for (const method of typeof methods === "string" ? [methods] : methods) known.names.add(method);
    this.#methods.set(path, known);
  }

  /** The methods of that path, sorted; none if there is no such path. */
  methodsOf(url: string): readonly string[] {
    const path = url.split("?", 1)[0] ?? "";
    const known = [...this.#methods.values()].filter(({ pattern }) => pattern.test(path));
    return [...new Set(known.flatMap(({ names }) => [...names]))].sort();
  }
}

function patternOf(path: string): RegExp {
  const parts = path.split("/").map((part) => (part.startsWith(":") ? "[^/]+" : escapePart(part)));
  return new RegExp(`^${parts.join("/")}$`);
}

function escapePart(part: string): string {
  return part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
