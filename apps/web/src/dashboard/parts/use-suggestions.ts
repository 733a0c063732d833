/** Use suggestions: the state of a combo box: the list, the marked entry, and how keys move it. */
import { type ReadonlySignal, useSignal } from "@preact/signals";
import { systemClock } from "@redrive/core";
import { useRef } from "preact/hooks";
import { type Suggestion, SuggestionRequests } from "./suggestion-requests.ts";

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

interface State {
  readonly list: readonly Suggestion[];
  readonly isOpen: boolean;
  readonly marked: number;
}

export function useSuggestions(
  suggest: (text: string) => Promise<readonly Suggestion[]>,
): Suggestions {
  const state = useSignal<State>({ list: [], isOpen: false, marked: -1 });
  const request = useRef<SuggestionRequests | undefined>(undefined);
  request.current ??= new SuggestionRequests(systemClock, suggest);
  const requests = request.current;
  requests.suggest = suggest;
  requests.onFound = (list) => {
    state.value = { ...state.value, list, marked: -1 };
  };
  const { list, isOpen, marked } = (state as ReadonlySignal<State>).value;
  return {
    list,
    isShown: isOpen && list.length > 0,
    marked,
    open(text) {
      state.value = { ...state.value, isOpen: true };
      requests.start(text);
    },
    close() {
      state.value = { ...state.value, isOpen: false, marked: -1 };
      requests.cancel();
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
