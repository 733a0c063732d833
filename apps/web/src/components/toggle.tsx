/** Toggle: a labeled checkbox. */
import type { ComponentChildren } from "preact";

interface ToggleProps {
  readonly checked: boolean;
  readonly children: ComponentChildren;
  onChange(checked: boolean): void;
}

export function Toggle({ checked, children, onChange }: ToggleProps) {
  return (
    <label class="toggle">
      <input
        type="checkbox"
        checked={checked}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      <span>{children}</span>
    </label>
  );
}
