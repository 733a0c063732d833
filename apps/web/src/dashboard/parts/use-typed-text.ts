/**
 * Use typed text: what a user types into a field until it applies. The page is drawn again while they
 * type, and would otherwise put the old value back.
 */
import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

/** Follows the value when that changes elsewhere. */
export function useTypedText(value: string): Signal<string> {
  const text = useSignal(value);
  useEffect(() => {
    text.value = value;
  }, [value]);
  return text;
}
