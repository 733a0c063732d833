/** Use focus: takes the keyboard when the conversation comes here, and not when the page opens. */
import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";
import { type Focus, focusNext } from "./advisor-store.ts";

export function useFocus(
  target: RefObject<HTMLElement | null>,
  isMeant: (focus: Focus) => boolean,
): void {
  const focus = focusNext.value;
  useLayoutEffect(() => {
    if (focus === undefined || target.current === null || !isMeant(focus)) return;
    focusNext.value = undefined;
    target.current.focus();
  });
}
