/**
 * Wrapped: an object with the members of a store, or of a part of one, some of them replaced. The
 * other methods run on the wrapped object itself, so it may be the instance of a class.
 */

/** Spreading an object would lose the methods of its class, and separate them from their `this`. */
export function wrapped<Part extends object>(inner: Part, changes: Partial<Part>): Part {
  const outer = Object.create(null) as Part;
  for (const name of namesOf(inner)) {
    if (!Object.hasOwn(changes, name)) forward(outer, inner, name);
  }
  return Object.assign(outer, changes);
}

/** The names of all members, inherited ones included. */
export function namesOf<Part extends object>(part: Part): readonly (keyof Part)[] {
  const names = new Set<string>();
  let owner: object | null = part;
  while (owner !== null && owner !== Object.prototype) {
    for (const name of Object.getOwnPropertyNames(owner)) names.add(name);
    owner = Object.getPrototypeOf(owner);
  }
  names.delete("constructor");
  return [...names] as (keyof Part & string)[];
}

function forward<Part extends object>(outer: Part, inner: Part, name: keyof Part): void {
  const get = () => inner[name];
  const value = get();
  if (typeof value !== "function") {
    Object.defineProperty(outer, name, { get, enumerable: true, configurable: true });
    return;
  }
  // Looked up at each call, so that a method replaced later is found.
  const call = (...args: readonly unknown[]) => (inner[name] as typeof value)(...args);
  Object.defineProperty(outer, name, {
    value: call,
    writable: true,
    enumerable: true,
    configurable: true,
  });
}
