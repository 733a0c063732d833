/** Use suggestions: the state of a combo box: the list, the marked entry, and how keys move it. */
import { type ReadonlySignal, useSignal } from "@preact/signals";
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

/** One request at a time: a text that is typed meanwhile is asked for next, and those before it are not. */
function useRequest(
  suggest: (text: string) => Promise<readonly Suggestion[]>,
  onFound: (list: readonly Suggestion[]) => void,
): { start(text: string): void; cancel(): void } {
  const asked = useRef({ wanted: undefined as string | undefined, isRunning: false });
  const send = async () => {
    const { current } = asked;
    current.isRunning = true;
    for (let text = current.wanted; text !== undefined; text = current.wanted) {
      // Without suggestions the field still works.
      const list = await suggest(text).catch(() => []);
      if (current.wanted !== text) continue;
      current.wanted = undefined;
      onFound(list);
    }
    current.isRunning = false;
  };
  return {
    start(text) {
      asked.current.wanted = text;
      if (!asked.current.isRunning) void send();
    },
    cancel() {
      asked.current.wanted = undefined;
    },
  };
}
