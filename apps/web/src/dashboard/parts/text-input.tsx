/** Text input: a labeled field for a word, applied when the user presses Enter or leaves it. */
import { useId } from "preact/hooks";

interface TextInputProps {
  readonly label: string;
  readonly value: string;
  readonly placeholder?: string;
  readonly pattern?: string;
  onChange(value: string): void;
}

export function TextInput({ label, value, placeholder = "", pattern, onChange }: TextInputProps) {
  const id = useId();
  return (
    <div class="select">
      <label for={id}>{label}</label>
      <input
        id={id}
        class="text-area"
        value={value}
        placeholder={placeholder}
        pattern={pattern}
        autocomplete="off"
        spellcheck={false}
        onChange={(event) => onChange(event.currentTarget.value.trim())}
      />
    </div>
  );
}
