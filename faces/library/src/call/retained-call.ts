/**
 * Retained call: one call object that stays alive. At a full garbage collection V8 drops a hidden
 * class that has no live instance, and all code compiled for it. Programs often have no call in
 * progress at that moment, and their next 30,000 calls would cost up to ten times as much.
 */
import type { Call } from "./call.ts";
import type { CallConfig } from "./call-config.ts";
import type { Operation, RunOptions } from "./options.ts";

interface CallClass {
  new (
    config: CallConfig,
    operation: Operation<unknown>,
    options: RunOptions<unknown>,
    resolve: () => void,
    reject: () => void,
  ): Call<unknown>;
  /** A variable that nobody reads would be removed by minifiers; a property of the class is not. */
  retained?: Call<unknown>;
}

/**
 * Replaces the retained call with a new one. It holds no reference to a user's values. Only rare
 * paths call this function: even a test for a retained call would cost a fifth of a call on Node 24.
 */
export function retainCall(callClass: CallClass, config: CallConfig): void {
  const doNothing = () => undefined;
  callClass.retained = new callClass(config, doNothing, {}, doNothing, doNothing);
}
