/**
 * Progress: one line on standard error that is redrawn during long work and erased at the end. If
 * standard error is not a terminal, it writes nothing.
 */

import { formatDuration } from "@redrive/core";
import { bar } from "./bar.ts";

export interface ProgressView {
  readonly done: number;
  readonly total: number;
  /** The current work, such as the name of a lab. */
  readonly what: string;
  readonly elapsedMs: number;
}

/** Width of the bar in characters. */
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
  /** Erases the line. Safe to call twice. */
  clear(): void;
}

/** Progress appears only after this time: short work needs none. */
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
