/**
 * Combo box: a labeled field for a word, with suggestions from the service. What the user types applies
 * when they press Enter, leave the field, or choose a suggestion.
 */
import { formatInteger } from "@redrive/core";
import { useId } from "preact/hooks";
import type { Suggestion } from "./suggestion-requests.ts";
import { type Suggestions, useSuggestions } from "./use-suggestions.ts";
import { useTypedText } from "./use-typed-text.ts";
import { visibleText } from "./visible-text.ts";

interface ComboBoxProps {
  readonly label: string;
  readonly value: string;
  readonly placeholder: string;
  /** The key that moves the focus here. */
  readonly focusKey?: string | undefined;
  suggest(text: string): Promise<readonly Suggestion[]>;
  onChange(value: string): void;
}

export function ComboBox(props: ComboBoxProps) {
  const { label, value, placeholder, focusKey, suggest, onChange } = props;
  const id = useId();
  const text = useTypedText(value);
  const suggestions = useSuggestions(suggest);
  const { list, isShown, marked } = suggestions;
  const typed = () => text.peek().trim();
  const choose = (chosen: string) => {
    suggestions.close();
    text.value = chosen;
    if (chosen !== value) onChange(chosen);
  };
  return (
    <div class="select combo">
      <label for={id}>{label}</label>
      <input
        id={id}
        class="text-area"
        role="combobox"
        aria-expanded={isShown}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={marked >= 0 ? `${id}-${marked}` : undefined}
        value={text.value}
        placeholder={placeholder}
        autocomplete="off"
        spellcheck={false}
        data-key={focusKey}
        onFocus={() => suggestions.open(typed())}
        onInput={(event) => {
          text.value = event.currentTarget.value;
          suggestions.open(typed());
        }}
        onKeyDown={(event) => {
          if (handleKey(event.key, suggestions, () => choose(list[marked]?.value ?? typed()))) {
            event.preventDefault();
          }
        }}
        onBlur={() => choose(typed())}
      />
      <div
        id={`${id}-list`}
        class="suggestions"
        role="listbox"
        aria-label={`Suggestions: ${label}`}
        hidden={!isShown}
      >
        {list.map((suggestion, index) => (
          <Option
            key={suggestion.value}
            id={`${id}-${index}`}
            suggestion={suggestion}
            isMarked={index === marked}
            onChoose={() => choose(suggestion.value)}
          />
        ))}
      </div>
    </div>
  );
}

/** True if the key was used. */
function handleKey(key: string, suggestions: Suggestions, choose: () => void): boolean {
  switch (key) {
    case "ArrowDown":
    case "ArrowUp":
      suggestions.move(key === "ArrowDown" ? 1 : -1);
      return true;
    case "Enter":
      choose();
      return true;
    case "Escape":
      suggestions.close();
      return suggestions.isShown;
    default:
      return false;
  }
}

interface OptionProps {
  readonly id: string;
  readonly suggestion: Suggestion;
  readonly isMarked: boolean;
  onChoose(): void;
}

function Option({ id, suggestion: { value, count }, isMarked, onChoose }: OptionProps) {
  return (
    // biome-ignore lint/a11y/useFocusableInteractive: the field keeps the focus and names the marked option.
    <div
      id={id}
      class="suggestion"
      role="option"
      aria-selected={isMarked}
      // Before the field loses the focus.
      onPointerDown={(event) => {
        event.preventDefault();
        onChoose();
      }}
    >
      <bdi>{visibleText(value)}</bdi>
      <small>{formatInteger(count)}</small>
    </div>
  );
}
