/**
 * Throttle: refuses calls locally when the server accepts too few of them. Client-side adaptive
 * throttling after Google's "Site Reliability Engineering", chapter 21. In the steady state it sends K
 * times the accepted calls, which is enough to detect at once that the server has recovered.
 *
 * A sent request counts when its result is known, together with whether it was accepted, as in Envoy's
 * admission control filter. The book counts it when it is sent. A cold throttle then refuses parallel
 * calls to a healthy server, because no accept can have arrived yet. A request that is refused locally
 * counts at once, as in the book.
 */
import { partRule, readSavedState, versionRule } from "../documents/document.ts";
import {
  advanceWindow,
  BUCKETS_PER_WINDOW,
  type CountWindow,
  countEvent,
  createWindow,
  restoreWindow,
  type SavedWindow,
  saveWindow,
  totalOf,
  type WindowShape,
} from "./sliding-window.ts";

export interface ThrottleOptions {
  /** Calls sent per accepted call before any is refused: lower is stricter. 1 to 100. Default: 2. */
  readonly k: number;
  /** Window of both counts. 100 to 3 600 000 ms. Default: 120 000. */
  readonly windowMs: number;
}

export const THROTTLE_DEFAULTS: ThrottleOptions = { k: 2, windowMs: 120_000 };

export interface Throttle {
  readonly options: ThrottleOptions;
  readonly window: CountWindow;
}

const REQUESTS = 0;
const ACCEPTS = 1;

function shapeOf({ windowMs }: ThrottleOptions): WindowShape {
  return { windowMs, slots: BUCKETS_PER_WINDOW, kinds: 2 };
}

export function createThrottle(options: ThrottleOptions, now: number): Throttle {
  return { options, window: createWindow(shapeOf(options), now) };
}

/** The probability that the next call is refused. From 0 to below 1. */
export function rejectShare({ options, window }: Throttle, now: number): number {
  advanceWindow(window, now);
  const requests = totalOf(window, REQUESTS);
  const accepts = totalOf(window, ACCEPTS);
  return Math.max(0, (requests - options.k * accepts) / (requests + 1));
}

/** Decides about a call; true means send it. `draw` is in [0, 1). A refused call counts as a request. */
export function enterThrottle(throttle: Throttle, now: number, draw: number): boolean {
  const isSent = draw >= rejectShare(throttle, now);
  if (!isSent) countEvent(throttle.window, REQUESTS);
  return isSent;
}

/**
 * The result of a sent call is known, or its timeout has passed. `accepted`: the server processed it,
 * whatever the result; a refusal for overload is not accepted.
 */
export function recordThrottleResponse({ window }: Throttle, now: number, accepted: boolean): void {
  advanceWindow(window, now);
  countEvent(window, REQUESTS);
  if (accepted) countEvent(window, ACCEPTS);
}

export interface SavedThrottle {
  readonly version: 1;
  readonly window: SavedWindow;
}

export function saveThrottle({ window }: Throttle): SavedThrottle {
  return { version: 1, window: saveWindow(window) };
}

export function restoreThrottle(options: ThrottleOptions, value: unknown, now: number): Throttle {
  const fields = { version: versionRule, window: partRule };
  const { window } = readSavedState<SavedThrottle>("throttle", value, fields);
  return { options, window: restoreWindow("throttle.window", shapeOf(options), window, now) };
}
