/**
 * Wrapped: a function that is called through a destination, with its own `this` and arguments.
 */
import type { Attempted, RunOptions } from "./options.ts";

/** A wrapped function. */
export interface Wrapped<Args extends readonly unknown[], T> {
  (...args: Args): Promise<T>;
  /** The same function, with further options for the calls made through it, such as a `signal`. */
  with(options: RunOptions<T>): (...args: Args) => Promise<T>;
}

interface Runner {
  run<T>(fn: Attempted<T>, overrides?: RunOptions<T>): Promise<T>;
}

/** With `hasContext`, `fn` gets the attempt's context before its own arguments. */
export function wrapped<Args extends readonly unknown[], T>(
  runner: Runner,
  fn: (...args: never) => T | PromiseLike<T>,
  overrides?: RunOptions<T>,
  hasContext?: boolean,
): Wrapped<Args, T> {
  const bind = (options?: RunOptions<T>) =>
    function (this: unknown, ...args: Args): Promise<T> {
      const call: Attempted<T> = (context) =>
        Reflect.apply(fn, this, hasContext ? [context, ...args] : args);
      return runner.run(call, options ? { ...overrides, ...options } : overrides);
    };
  return Object.assign(bind(), { with: bind });
}
