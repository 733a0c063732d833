/**
 * Progress: one line on the error stream that is drawn over and over while long work runs, and is
 * gone when it ends. Where nobody looks on (no terminal), it writes nothing.
 */

import { formatDuration } from "@redrive/simulator/words";
import { bar } from "./bar.ts";

export interface ProgressView {
  readonly done: number;
  readonly total: number;
  /** What is under way. */
  readonly what: string;
  readonly elapsedMs: number;
}

/** Characters of the bar. */
const BAR_WIDTH = 20;

const ERASE_LINE = "\r\u001b[2K";

export function progressLine(view: ProgressView, width: number): string {
  const { done, total, what, elapsedMs } = view;
  const filled = bar(done, total, BAR_WIDTH).padEnd(BAR_WIDTH, "·");
  const seconds = formatDuration(Math.floor(elapsedMs / 1000) * 1000);
  return `${filled} ${done} of ${total}, ${seconds}: ${what}`.slice(0, width - 1);
}

export interface Progress {
  draw(view: ProgressView): void;
  /** Takes the line away. Safe twice. */
  clear(): void;
}

/** Nothing is drawn before this much time has gone by: short work needs no progress. */
const QUIET_MS = 2000;

export function createProgress(
  write: (text: string) => void,
  options: { readonly width: number; readonly isShown: boolean },
): Progress {
  let isDrawn = false;
  return {
    draw(view) {
      if (!options.isShown || view.elapsedMs < QUIET_MS) return;
      write(ERASE_LINE + progressLine(view, options.width));
      isDrawn = true;
    },
    clear() {
      if (isDrawn) write(ERASE_LINE);
      isDrawn = false;
    },
  };
}
