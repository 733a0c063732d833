/** Answer: what the worker says about a question that follows the store, as signals for the view. */
import { effect, type ReadonlySignal, signal } from "@preact/signals";
import { ask } from "./client.ts";
import type { Input, Kind, Output } from "./requests.ts";

export interface Answer<T> {
  /** The newest answer; the one before stays until it comes. */
  readonly value: ReadonlySignal<T | undefined>;
  readonly isBusy: ReadonlySignal<boolean>;
  /** Why there is no answer, or empty. */
  readonly problem: ReadonlySignal<string>;
}

/** Asks whenever the signals that `question` reads change; no question leaves the answer as it is. */
export function answerTo<K extends Kind>(
  lane: string,
  kind: K,
  question: () => Input<K> | undefined,
): Answer<Output<K>> {
  const value = signal<Output<K> | undefined>(undefined);
  const isBusy = signal(false);
  const problem = signal("");
  let asked = 0;
  effect(() => {
    const input = question();
    if (input === undefined) return;
    asked++;
    const turn = asked;
    isBusy.value = true;
    const end = () => {
      if (turn === asked) isBusy.value = false;
    };
    ask(lane, kind, input).then(
      (output) => {
        if (output !== undefined) {
          value.value = output;
          problem.value = "";
        }
        end();
      },
      (error: Error) => {
        problem.value = error.message;
        end();
      },
    );
  });
  return { value, isBusy, problem };
}
