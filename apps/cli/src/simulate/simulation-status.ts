/**
 * Status: what is being simulated and how far it is, told while it runs and gone afterwards. Only on
 * the error stream, and only where somebody looks on.
 */
import type { OnProgress } from "@redrive/simulator";
import type { Terminal } from "../print/terminal.ts";

const ERASE_LINE = "\r\u001b[2K";

/** Runs `work`, which may tell its progress. */
export function withStatus<T>(
  terminal: Terminal,
  what: string,
  work: (onProgress: OnProgress | undefined) => T,
): T {
  if (!terminal.showsProgress) return work(undefined);
  const line = `simulating ${what} ...`;
  terminal.printError(line.slice(0, terminal.width - 1));
  let told = 0;
  try {
    return work((share) => {
      const percent = Math.floor(share * 100);
      if (percent === told) return;
      told = percent;
      terminal.printError(`${ERASE_LINE}${`${line} ${percent} %`.slice(0, terminal.width - 1)}`);
    });
  } finally {
    terminal.printError(ERASE_LINE);
  }
}

/** One after the other, each with its name and place. */
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
