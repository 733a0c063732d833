/**
 * Status: what is being simulated, told while it runs and gone afterwards. A simulation occupies the
 * thread and cannot be asked how far it is; several of them can be counted.
 */
import type { Screen } from "./screen.ts";

const ERASE_LINE = "\r\u001b[2K";

export function withStatus<T>(screen: Screen, what: string, work: () => T): T {
  if (!screen.isWatched) return work();
  screen.note(`simulating ${what} ...`.slice(0, screen.width - 1));
  try {
    return work();
  } finally {
    screen.note(ERASE_LINE);
  }
}

/** One after the other, each with its name and place. */
export function mapWithStatus<Item extends { readonly name: string }, T>(
  screen: Screen,
  items: readonly Item[],
  work: (item: Item) => T,
): readonly T[] {
  return items.map((item, index) => {
    const what = `${item.name}, ${index + 1} of ${items.length}`;
    return withStatus(screen, what, () => work(item));
  });
}
