/**
 * Kept call: one call that stays alive. At a full collection V8 drops a hidden class that has no
 * live instance, and with it all code compiled for it. Programs often have no call under way then,
 * and their next 30,000 calls would cost up to ten times as much.
 */
import type { Call } from "./call.ts";
import type { Setting } from "./setting.ts";

export let keptCall: Call<unknown> | undefined;

/**
 * Keeps a new call in place of the one before; it has nothing of a user's. Called where calls rarely
 * come: even a test whether there is a kept call would cost a fifth of a call on Node 24.
 */
export function keepCall(CallClass: typeof Call<unknown>, setting: Setting): void {
  const doNothing = () => undefined;
  keptCall = new CallClass(setting, doNothing, {}, doNothing, doNothing);
}
