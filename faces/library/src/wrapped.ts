/** Wrapped: a function that is called through something else, with its own `this` and arguments. */

export function wrapped<Args extends readonly unknown[], T>(
  fn: (...args: Args) => T | PromiseLike<T>,
  run: (call: () => T | PromiseLike<T>) => Promise<T>,
): (...args: Args) => Promise<T> {
  return function (this: unknown, ...args: Args) {
    return run(() => Reflect.apply(fn, this, args));
  };
}
