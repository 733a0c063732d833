/**
 * Simulation status: shows on standard error what is being simulated and its progress, and erases
 * it afterwards. Only if standard error is a terminal.
 */
import type { OnProgress } from "@redrive/simulator";
import type { Terminal } from "../print/terminal.ts";

const ERASE_LINE = "\r\u001b[2K";

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
