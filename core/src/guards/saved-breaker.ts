/**
 * Saved breaker: a breaker as JSON and back. All instants are absolute, so a breaker that is restored
 * after an hour has the state that it would have reached by then.
 */

import { choiceRule, numberRule } from "../documents/document.ts";
import {
  countRule,
  instantRule,
  partRule,
  readSavedState,
  versionRule,
} from "../documents/saved-state.ts";
import { type Breaker, type BreakerOptions, type BreakerState, createBreaker } from "./breaker.ts";
import { restoreWindow, type SavedWindow, saveWindow } from "./sliding-window.ts";

export interface SavedBreaker {
  readonly version: 1;
  readonly state: BreakerState;
  readonly openUntil: number;
  readonly openCount: number;
  readonly generation: number;
  readonly probes: number;
  readonly probeAt: number;
  readonly successes: number;
  readonly at: number;
  readonly window: SavedWindow;
}

export function saveBreaker(breaker: Breaker): SavedBreaker {
  const { options, window, ...columns } = breaker;
  return { version: 1, ...columns, window: saveWindow(window) };
}

export function restoreBreaker(options: BreakerOptions, value: unknown, now: number): Breaker {
  const { version, window, ...columns } = readSavedState<SavedBreaker>("breaker", value, {
    version: versionRule,
    state: choiceRule("CLOSED", "OPEN", "HALF_OPEN"),
    openUntil: instantRule,
    openCount: countRule,
    generation: numberRule(1, Number.MAX_SAFE_INTEGER),
    probes: countRule,
    probeAt: instantRule,
    successes: countRule,
    at: instantRule,
    window: partRule,
  });
  const fresh = createBreaker(options, now);
  const { shape } = fresh.window;
  return { ...fresh, ...columns, window: restoreWindow("breaker.window", shape, window, now) };
}
