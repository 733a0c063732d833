/** Use focus: focuses an element when the conversation reaches it, but not when the page opens. */
import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";
import { type Focus, focusNext } from "./advisor-store.ts";

export function useFocus(
  target: RefObject<HTMLElement | null>,
  isTarget: (focus: Focus) => boolean,
): void {
  const focus = focusNext.value;
  useLayoutEffect(() => {
    if (focus === undefined || target.current === null || !isTarget(focus)) return;
    focusNext.value = undefined;
    target.current.focus();
  });
}
