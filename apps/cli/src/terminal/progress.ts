/**
 * Progress: one line on standard error that is redrawn during long work and erased at the end. If
 * standard error is not a terminal, it writes nothing.
 */
import { formatDuration } from "@redrive/core";
import type { OnProgress } from "@redrive/simulator";
import { bar } from "./charts.ts";
import type { Terminal } from "./terminal.ts";

interface ProgressView {
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

interface Progress {
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

// Simulation status: shows on standard error what is being simulated and its progress, and erases
// it afterwards. Only if standard error is a terminal.

/** Runs `work`, which may report its progress. */
export function withStatus<T>(
  terminal: Terminal,
  what: string,
  work: (onProgress: OnProgress | undefined) => T,
): T {
  if (!terminal.showsProgress) return work(undefined);
  const line = `simulating ${what} ...`;
  terminal.printError(line.slice(0, terminal.width - 1));
  let shownPercent = 0;
  try {
    return work((share) => {
      const percent = Math.floor(share * 100);
      if (percent === shownPercent) return;
      shownPercent = percent;
      terminal.printError(`${ERASE_LINE}${`${line} ${percent} %`.slice(0, terminal.width - 1)}`);
    });
  } finally {
    terminal.printError(ERASE_LINE);
  }
}

/** Runs `work` for one item after the other and shows the name and number of each. */
export function mapWithStatus<Item extends { readonly name: string }, T>(
  terminal: Terminal,
  items: readonly Item[],
  work: (item: Item, onProgress: OnProgress | undefined) => T,
): readonly T[] {
  return items.map((item, index) => {
    const what = `${item.name}, ${index + 1} of ${items.length}`;
    return withStatus(terminal, what, (onProgress) => work(item, onProgress));
  });
}
