/**
 * Shortcuts: listens for the keys of a page, of which some follow `g`, and lists them in a dialog.
 */
import type { Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

export interface Shortcut {
  readonly keys: string;
  readonly action: string;
}

/** True after `g`, for the next key only. */
let isChord = false;

/** Both return whether they used the key; `chord` gets the key after `g`. */
export function onKeys(press: (key: string) => boolean, chord: (key: string) => boolean): void {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const wasChord = isChord;
    isChord = event.key === "g" && !wasChord;
    if (wasChord ? chord(event.key) : press(event.key)) event.preventDefault();
  });
}

/** Keys typed into a field are not shortcuts. */
function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  const isText =
    target instanceof HTMLInputElement && !["range", "radio", "checkbox"].includes(target.type);
  return isText || target.matches("textarea, select, [contenteditable]");
}

interface ShortcutDialogProps {
  readonly shown: Signal<boolean>;
  readonly shortcuts: readonly Shortcut[];
}

export function ShortcutDialog({ shown, shortcuts }: ShortcutDialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const isOpen = shown.value;
  useEffect(() => {
    if (isOpen && !dialog.current?.open) dialog.current?.showModal();
    if (!isOpen && dialog.current?.open) dialog.current.close();
  }, [isOpen]);
  return (
    <dialog
      ref={dialog}
      class="sheet"
      aria-labelledby="sheet-title"
      onClose={() => {
        shown.value = false;
      }}
    >
      <h2 id="sheet-title">Keyboard</h2>
      <dl class="shortcuts">
        {shortcuts.map(({ keys, action }) => (
          <div key={keys}>
            <dt>{keys}</dt>
            <dd>{action}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog">
        <button type="submit" class="button">
          Close
        </button>
      </form>
    </dialog>
  );
}
