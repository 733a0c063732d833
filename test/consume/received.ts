/**
 * Received: what a consumer under test received, and promises for what the test waits for. No test has
 * to sleep.
 */
import type { ConsumeEvent } from "redrive/consume";

export class Received {
  readonly events: ConsumeEvent[] = [];
  readonly #waiting = new Set<() => void>();

  /** For the option of the consumer. */
  readonly onEvent = (event: ConsumeEvent): void => {
    this.events.push(event);
    for (const check of this.#waiting) check();
  };

  /** Resolves when so many events of the type were emitted; returns them. */
  count<Type extends ConsumeEvent["type"]>(
    type: Type,
    count: number,
  ): Promise<Extract<ConsumeEvent, { readonly type: Type }>[]> {
    return new Promise((resolve) => {
      const check = () => {
        const found = this.ofType(type);
        if (found.length < count) return;
        this.#waiting.delete(check);
        resolve(found);
      };
      this.#waiting.add(check);
      check();
    });
  }

  ofType<Type extends ConsumeEvent["type"]>(
    type: Type,
  ): Extract<ConsumeEvent, { readonly type: Type }>[] {
    return this.events.filter(
      (event): event is Extract<ConsumeEvent, { readonly type: Type }> => event.type === type,
    );
  }

  /** The ids of the messages with such an event, in order. */
  ids(type: ConsumeEvent["type"]): string[] {
    return this.ofType(type).flatMap((event) => ("id" in event ? event.id : []));
  }
}

const POLL_MS = 5;

/** Resolves when a condition holds that no event tells. */
export async function until(holds: () => Promise<boolean> | boolean): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
}

/** A promise that the test settles. */
export function gate() {
  let open: () => void = () => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}
