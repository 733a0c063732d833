/**
 * Page turns: limits the pages that one tenant reads at once, so that it leaves connections to the
 * others. More pages wait for their turn, up to a limit.
 */
import { RedriveError } from "@redrive/core";

/** Pages of one tenant that may be in progress, waiting ones included. */
const MAX_PAGES = 100;
/** Pages of one tenant that are read at once. */
const MAX_RUNNING = 3;

interface Turns {
  running: number;
  readonly waiting: (() => void)[];
}

export class PageTurns {
  readonly #turns = new Map<string, Turns>();

  /** Rejects with `TOO_MANY_REQUESTS` if the tenant has too many pages in progress. */
  async run<T>(tenantId: string, work: () => Promise<T>): Promise<T> {
    const turns = this.#turns.get(tenantId) ?? { running: 0, waiting: [] };
    this.#turns.set(tenantId, turns);
    if (turns.running + turns.waiting.length >= MAX_PAGES) throw tooManyPages();
    if (turns.running < MAX_RUNNING) turns.running++;
    else await new Promise<void>((resolve) => turns.waiting.push(resolve));
    try {
      return await work();
    } finally {
      this.#end(tenantId, turns);
    }
  }

  /** The next page takes the place, or it becomes free. */
  #end(tenantId: string, turns: Turns): void {
    const next = turns.waiting.shift();
    if (next !== undefined) {
      next();
      return;
    }
    turns.running--;
    if (turns.running === 0) this.#turns.delete(tenantId);
  }
}

function tooManyPages(): Error {
  const text = `${MAX_PAGES} lists of this tenant are in progress; wait until one of them ends`;
  return new RedriveError("TOO_MANY_REQUESTS", text);
}
