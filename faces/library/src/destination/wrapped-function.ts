/**
 * Wrapped function: a function whose calls go through a destination and keep `this` and arguments.
 */
import type { Operation, RunOptions } from "../call/options.ts";

export interface WrappedFunction<Args extends readonly unknown[], T> {
  (...args: Args): Promise<T>;
  /** The same function, with further options for its calls, such as a `signal`. */
  with(options: RunOptions<T>): (...args: Args) => Promise<T>;
}

interface Runner {
  run<T>(fn: Operation<T>, overrides?: RunOptions<T>): Promise<T>;
}

/** With `hasContext`, `fn` gets the attempt's context before its own arguments. */
export function wrapFunction<Args extends readonly unknown[], T>(
  runner: Runner,
  fn: (...args: never) => T | PromiseLike<T>,
  overrides?: RunOptions<T>,
  hasContext?: boolean,
): WrappedFunction<Args, T> {
  const bind = (options?: RunOptions<T>) =>
    function (this: unknown, ...args: Args): Promise<T> {
      const operation: Operation<T> = (context) =>
        Reflect.apply(fn, this, hasContext ? [context, ...args] : args);
      return runner.run(operation, options ? { ...overrides, ...options } : overrides);
    };
  return Object.assign(bind(), { with: bind });
}
