/** Text input: a labeled field for a word, applied when the user presses Enter or leaves it. */

import { useId } from "preact/hooks";
import { useTypedText } from "./use-typed-text.ts";

interface TextInputProps {
  readonly label: string;
  readonly value: string;
  readonly placeholder?: string;
  readonly hint?: string;
  /** The key that moves the focus here. */
  readonly focusKey?: string;
  onChange(value: string): void;
}

export function TextInput(props: TextInputProps) {
  const { label, value, placeholder = "", hint, focusKey, onChange } = props;
  const id = useId();
  const text = useTypedText(value);
  return (
    <div class="select">
      <label for={id}>{label}</label>
      <input
        id={id}
        class="text-area"
        value={text.value}
        placeholder={placeholder}
        autocomplete="off"
        spellcheck={false}
        data-key={focusKey}
        aria-describedby={hint === undefined ? undefined : `${id}-hint`}
        onInput={(event) => {
          text.value = event.currentTarget.value;
        }}
        onChange={(event) => onChange(event.currentTarget.value.trim())}
      />
      {hint !== undefined && (
        <p class="field-hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  );
}
