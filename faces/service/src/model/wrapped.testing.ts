/**
 * Wrapped: an object with the members of a store, or of a part of one, some of them replaced. The other
 * methods run on the wrapped object itself, so it may be the instance of a class.
 */

/** Spreading an object would lose the methods of its class, and separate them from their `this`. */
export function wrapped<Part extends object>(inner: Part, changes: Partial<Part>): Part {
  const outer: Partial<Part> = {};
  for (const name of namesOf(inner)) {
    const value = inner[name];
    if (Object.hasOwn(changes, name)) outer[name] = changes[name] as Part[typeof name];
    else if (typeof value === "function") outer[name] = forward(inner, name) as typeof value;
    else outer[name] = value;
  }
  return Object.assign(outer, changes) as Part;
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

type Method = (...args: readonly unknown[]) => unknown;

/** Looked up at each call, so that a method replaced later is found. */
function forward<Part extends object>(inner: Part, name: keyof Part): Method {
  return (...args) => (inner[name] as Method)(...args);
}
