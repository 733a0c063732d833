/** Use suggestions: the state of a combo box: the list, the marked entry, and how keys move it. */
import { type ReadonlySignal, useSignal } from "@preact/signals";
import { type Cancel, systemClock } from "@redrive/core";
import { useRef } from "preact/hooks";

export interface Suggestion {
  readonly value: string;
  readonly count: number;
}

export interface Suggestions {
  readonly list: readonly Suggestion[];
  readonly isShown: boolean;
  /** The index of the marked suggestion; -1: none. */
  readonly marked: number;
  /** Shows the suggestions for a text. */
  open(text: string): void;
  close(): void;
  /** Marks the next or the previous one. */
  move(step: 1 | -1): void;
}

/** While somebody types, requests wait this long. */
const DELAY_MS = 120;

interface State {
  readonly list: readonly Suggestion[];
  readonly isOpen: boolean;
  readonly marked: number;
}

export function useSuggestions(
  suggest: (text: string) => Promise<readonly Suggestion[]>,
): Suggestions {
  const state = useSignal<State>({ list: [], isOpen: false, marked: -1 });
  const request = useRequest(suggest, (list) => {
    state.value = { ...state.value, list, marked: -1 };
  });
  const { list, isOpen, marked } = (state as ReadonlySignal<State>).value;
  return {
    list,
    isShown: isOpen && list.length > 0,
    marked,
    open(text) {
      state.value = { ...state.value, isOpen: true };
      request.start(text);
    },
    close() {
      state.value = { ...state.value, isOpen: false, marked: -1 };
      request.cancel();
    },
    move(step) {
      const { length } = list;
      if (length > 0) state.value = { ...state.value, marked: nextMark(marked, step, length) };
    },
  };
}

/** Around the ends, and from none to the first or the last. */
export function nextMark(marked: number, step: 1 | -1, length: number): number {
  if (marked < 0) return step > 0 ? 0 : length - 1;
  return (marked + step + length) % length;
}

/** Only the response to the last request counts. */
function useRequest(
  suggest: (text: string) => Promise<readonly Suggestion[]>,
  onFound: (list: readonly Suggestion[]) => void,
): { start(text: string): void; cancel(): void } {
  const last = useRef({ number: 0, cancel: (() => {}) as Cancel });
  const cancel = () => {
    last.current.number++;
    last.current.cancel();
  };
  return {
    cancel,
    start(text) {
      cancel();
      const { number } = last.current;
      const send = async () => {
        const list = await suggest(text);
        if (number === last.current.number) onFound(list);
      };
      // Without suggestions the field still works.
      last.current.cancel = systemClock.alarm(DELAY_MS, () => void send().catch(() => {}));
    },
  };
}
