/**
 * Status: what is being simulated and how far it is, told while it runs and gone afterwards. Only on
 * the error stream, and only where somebody looks on.
 */
import type { OnProgress } from "@redrive/simulator";
import type { Screen } from "./screen.ts";

const ERASE_LINE = "\r\u001b[2K";

/** Runs `work`, which may tell its progress. */
export function withStatus<T>(
  screen: Screen,
  what: string,
  work: (onProgress: OnProgress | undefined) => T,
): T {
  if (!screen.isWatched) return work(undefined);
  const line = `simulating ${what} ...`;
  screen.note(line.slice(0, screen.width - 1));
  let told = 0;
  try {
    return work((share) => {
      const percent = Math.floor(share * 100);
      if (percent === told) return;
      told = percent;
      screen.note(`${ERASE_LINE}${`${line} ${percent} %`.slice(0, screen.width - 1)}`);
    });
  } finally {
    screen.note(ERASE_LINE);
  }
}

/** One after the other, each with its name and place. */
export function mapWithStatus<Item extends { readonly name: string }, T>(
  screen: Screen,
  items: readonly Item[],
  work: (item: Item, onProgress: OnProgress | undefined) => T,
): readonly T[] {
  return items.map((item, index) => {
    const what = `${item.name}, ${index + 1} of ${items.length}`;
    return withStatus(screen, what, (onProgress) => work(item, onProgress));
  });
}
