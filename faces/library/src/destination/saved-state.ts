/**
 * Saved state: converts a destination's guards to JSON and back, so that a restarted process does not
 * overload a dependency that it knew to be down.
 */
import {
  type BreakerOptions,
  isObject,
  type Rule,
  readSavedState,
  restoreBreaker,
  type SavedBreaker,
  type SavedGuards,
  saveBreaker,
  saveGuards,
  versionRule,
} from "@redrive/core";
import type { KeyedGuards } from "./keyed-guards.ts";

export interface SavedState {
  readonly version: 1;
  readonly guards: SavedGuards;
  /** Breakers by key. */
  readonly keys: Readonly<Record<string, SavedBreaker>>;
}

export function saveState({ shared, breakers }: KeyedGuards): SavedState {
  const keys = [...breakers].map(([key, breaker]) => [key, saveBreaker(breaker)] as const);
  return { version: 1, guards: saveGuards(shared), keys: Object.fromEntries(keys) };
}

const objectRule: Rule = (value) => (isObject(value) ? undefined : "an object");

/** Checks the outer fields. Each guard checks its own part when it is restored. */
export function readState(saved: unknown): SavedState {
  const fields = { version: versionRule, guards: objectRule, keys: objectRule };
  return readSavedState<SavedState>("saved", saved, fields);
}

export function restoreKeys(
  { breakers }: KeyedGuards,
  options: BreakerOptions | undefined,
  { keys }: SavedState,
  now: number,
): void {
  if (options === undefined) return;
  for (const [key, saved] of Object.entries(keys)) {
    breakers.set(key, restoreBreaker(options, saved, now));
  }
}
