/** Shortcut dialog: lists the keyboard shortcuts of the page. */
import type { Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Shortcut } from "./shortcuts.ts";

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
