/**
 * Suggestion requests: asks for the suggestions of a text, one request at a time. A text that is typed
 * meanwhile is asked for next, and those before it are not.
 */
import type { TimeSource } from "@redrive/core";

export interface Suggestion {
  readonly value: string;
  readonly count: number;
}

/** A request that takes longer no longer holds up the next one. */
const MAX_WAIT_MS = 5000;

export class SuggestionRequests {
  readonly #clock: Pick<TimeSource, "alarm">;
  #wanted: string | undefined;
  #isRunning = false;
  /** The newest one is called: it belongs to the filter that is shown. */
  suggest: (text: string) => Promise<readonly Suggestion[]>;
  onFound: (list: readonly Suggestion[]) => void = () => {};

  constructor(
    clock: Pick<TimeSource, "alarm">,
    suggest: (text: string) => Promise<readonly Suggestion[]>,
  ) {
    this.#clock = clock;
    this.suggest = suggest;
  }

  start(text: string): void {
    this.#wanted = text;
    if (!this.#isRunning) void this.#run();
  }

  cancel(): void {
    this.#wanted = undefined;
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    try {
      for (let text = this.#wanted; text !== undefined; text = this.#wanted) {
        const list = await this.#ask(text);
        if (this.#wanted !== text) continue;
        this.#wanted = undefined;
        this.onFound(list);
      }
    } finally {
      this.#isRunning = false;
    }
  }

  /** Without suggestions the field still works. */
  #ask(text: string): Promise<readonly Suggestion[]> {
    return new Promise((resolve) => {
      const cancel = this.#clock.alarm(MAX_WAIT_MS, () => resolve([]));
      const end = (list: readonly Suggestion[]) => {
        cancel();
        resolve(list);
      };
      const ask = async () => end(await this.suggest(text));
      ask().catch(() => end([]));
    });
  }
}
