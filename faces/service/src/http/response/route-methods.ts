/**
 * Route methods: the methods of each path, so that a wrong method (405) differs from a wrong path
 * (404).
 */

export class RouteMethods {
  readonly #methods = new Map<string, { readonly pattern: RegExp; readonly names: Set<string> }>();

  add(path: string, methods: string | readonly string[]): void {
    const known = this.#methods.get(path) ?? { pattern: patternOf(path), names: new Set<string>() };
    for (const method of typeof methods === "string" ? [methods] : methods) known.names.add(method);
    this.#methods.set(path, known);
  }

  /** The methods of the path, sorted; empty if the path does not exist. */
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
