/** Menu: a button that opens a list of actions. Escape and losing focus close it. */
import type { ComponentChildren } from "preact";
import { useId, useRef, useState } from "preact/hooks";

interface MenuProps {
  readonly label: string;
  readonly children: (close: () => void) => ComponentChildren;
}

export function Menu({ label, children }: MenuProps) {
  const [isOpen, setOpen] = useState(false);
  const id = useId();
  const button = useRef<HTMLButtonElement>(null);
  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: handles keys and focus of the elements inside.
    <div
      class="menu"
      onKeyDown={(event) => {
        if (event.key === "Escape" && isOpen) close();
      }}
      onFocusOut={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOpen(false);
      }}
    >
      <button
        ref={button}
        type="button"
        class="button"
        aria-expanded={isOpen}
        aria-controls={id}
        onClick={() => setOpen(!isOpen)}
      >
        {label} <span aria-hidden="true">▾</span>
      </button>
      <div id={id} class="menu-list" hidden={!isOpen} tabIndex={-1}>
        {isOpen && children(close)}
      </div>
    </div>
  );
}

interface MenuItemProps {
  readonly label: string;
  readonly hint?: string;
  onSelect(): void;
}

export function MenuItem({ label, hint, onSelect }: MenuItemProps) {
  return (
    <button type="button" class="menu-item" onClick={onSelect}>
      <span>{label}</span>
      {hint !== undefined && <small>{hint}</small>}
    </button>
  );
}
