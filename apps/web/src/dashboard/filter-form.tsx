/** Filter form: the filters of the list, with suggestions. Every change is a new address. */
import { type ReadonlySignal, useSignal } from "@preact/signals";
import { formatInteger, systemClock, type TimeSource } from "@redrive/core";
import { useId, useRef } from "preact/hooks";
import { Problem, Select } from "../components/controls.tsx";
import { client, now, type SuggestedField } from "./parts/client.ts";
import { useTypedText } from "./parts/form.tsx";
import { goTo, Link } from "./parts/link.tsx";
import { statusLabel } from "./parts/status.tsx";
import {
  ages,
  apiFilter,
  type FilterName,
  filterProblem,
  isFiltered,
  statuses,
  type TaskFilters,
} from "./parts/task-selection.ts";
import { visibleText } from "./parts/visible-text.ts";

interface SuggestedFilter {
  readonly name: FilterName;
  readonly field: SuggestedField;
  readonly label: string;
  readonly hint: string;
}

const FIELDS: readonly SuggestedFilter[] = [
  { name: "destination", field: "destination", label: "Destination", hint: "any" },
  { name: "label", field: "label", label: "Label", hint: "name=value" },
  { name: "reason", field: "reason", label: "Reason", hint: "any" },
  { name: "lastStatus", field: "lastStatus", label: "Last response", hint: "503" },
  { name: "policy", field: "policyId", label: "Policy", hint: "any" },
  { name: "key", field: "idempotencyKey", label: "Idempotency key", hint: "order-17" },
];

const AGES = [
  {
    label: "Created",
    options: Object.entries(ages).map(([value, { label }]) => ({ value, label })),
  },
];

const REDRIVEN = [
  {
    label: "Redriven",
    options: [
      { value: "false", label: "not redriven" },
      { value: "true", label: "redriven" },
    ],
  },
];

export function FilterForm({ filters }: { readonly filters: TaskFilters }) {
  const set = (name: FilterName, value: string) => goTo("tasks", { ...filters, [name]: value });
  const problem = filterProblem(filters);
  const count = FIELDS.filter(({ name }) => filters[name] !== "").length;
  return (
    <search class="task-filters">
      <StatusTabs filters={filters} />
      <details class="filter-fold" open={count > 0 || !isNarrow()}>
        <summary>Filters{count > 0 && ` (${count})`}</summary>
        <div class="filters">
          {FIELDS.map(({ name, field, label, hint }, index) => (
            <ComboBox
              key={name}
              label={label}
              value={filters[name]}
              placeholder={hint}
              focusKey={index === 0 ? "/" : undefined}
              suggest={async (text) => {
                const others = problem === "" ? apiFilter({ ...filters, [name]: "" }, now()) : {};
                return (await client.suggestValues({ ...others, field, text })).suggestions;
              }}
              onChange={(value) => set(name, value)}
            />
          ))}
          <Select
            label="Created"
            value={filters.age}
            groups={AGES}
            emptyLabel="any time"
            onChange={(value) => set("age", value)}
          />
          {filters.status === "EXHAUSTED" && (
            <Select
              label="Redriven"
              value={filters.redriven}
              groups={REDRIVEN}
              emptyLabel="either"
              onChange={(value) => set("redriven", value)}
            />
          )}
          {isFiltered(filters) && (
            <button type="button" class="button" onClick={() => goTo("tasks")}>
              Clear filters
            </button>
          )}
        </div>
      </details>
      <Problem message={problem} />
    </search>
  );
}

/** On a phone the filters are folded until somebody uses them. */
function isNarrow(): boolean {
  return matchMedia("(max-width: 45rem)").matches;
}

function StatusTabs({ filters }: { readonly filters: TaskFilters }) {
  return (
    <nav class="status-tabs" aria-label="Status">
      {["", ...statuses].map((status) => (
        <Link
          key={status}
          page="tasks"
          query={{ ...filters, status, ...(status !== "EXHAUSTED" && { redriven: "" }) }}
          isCurrent={filters.status === status}
        >
          {tabLabel(status)}
        </Link>
      ))}
    </nav>
  );
}

function tabLabel(status: string): string {
  if (status === "") return "All";
  const label = status === "EXHAUSTED" ? "dead letters" : statusLabel(status);
  return label.charAt(0).toUpperCase() + label.slice(1);
}

// Combo box: a labeled field for a word, with suggestions from the service. What the user types
// applies when they press Enter, leave the field, or choose a suggestion.

interface ComboBoxProps {
  readonly label: string;
  readonly value: string;
  readonly placeholder: string;
  /** The key that moves the focus here. */
  readonly focusKey?: string | undefined;
  suggest(text: string): Promise<readonly Suggestion[]>;
  onChange(value: string): void;
}

function ComboBox(props: ComboBoxProps) {
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

interface Suggestions {
  readonly list: readonly Suggestion[];
  readonly isShown: boolean;
  /** The index of the marked suggestion; -1: none. */
  readonly marked: number;
  /** Shows the suggestions for a text. */
  open(text: string): void;
  close(): void;
  /** Marks the next or the previous one. */
  move(step: 1 | -1): void;
}

interface State {
  readonly list: readonly Suggestion[];
  readonly isOpen: boolean;
  readonly marked: number;
}

/** The state of a combo box: the list, the marked entry, and how keys move it. */
function useSuggestions(suggest: (text: string) => Promise<readonly Suggestion[]>): Suggestions {
  const state = useSignal<State>({ list: [], isOpen: false, marked: -1 });
  const request = useRef<SuggestionRequests | undefined>(undefined);
  request.current ??= new SuggestionRequests(systemClock, suggest);
  const requests = request.current;
  requests.suggest = suggest;
  requests.onFound = (list) => {
    state.value = { ...state.value, list, marked: -1 };
  };
  const { list, isOpen, marked } = (state as ReadonlySignal<State>).value;
  return {
    list,
    isShown: isOpen && list.length > 0,
    marked,
    open(text) {
      state.value = { ...state.value, isOpen: true };
      requests.start(text);
    },
    close() {
      state.value = { ...state.value, isOpen: false, marked: -1 };
      requests.cancel();
    },
    move(step) {
      const { length } = list;
      if (length > 0) state.value = { ...state.value, marked: nextMark(marked, step, length) };
    },
  };
}

/** Around the ends, and from none to the first or the last. */
export function nextMark(marked: number, step: 1 | -1, length: number): number {
  if (marked < 0) return step > 0 ? 0 : length - 1;
  return (marked + step + length) % length;
}

// Suggestion requests: asks for the suggestions of a text, one request at a time. A text that is
// typed meanwhile is asked for next, and those before it are not.

export interface Suggestion {
  readonly value: string;
  readonly count: number;
}

/** A request that takes longer no longer holds up the next one. */
const MAX_WAIT_MS = 5000;

export class SuggestionRequests {
  readonly #clock: Pick<TimeSource, "alarm">;
  #wanted: string | undefined;
  #isRunning = false;
  /** The newest one is called: it belongs to the filter that is shown. */
  suggest: (text: string) => Promise<readonly Suggestion[]>;
  onFound: (list: readonly Suggestion[]) => void = () => {};

  constructor(
    clock: Pick<TimeSource, "alarm">,
    suggest: (text: string) => Promise<readonly Suggestion[]>,
  ) {
    this.#clock = clock;
    this.suggest = suggest;
  }

  start(text: string): void {
    this.#wanted = text;
    if (!this.#isRunning) void this.#run();
  }

  cancel(): void {
    this.#wanted = undefined;
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    try {
      for (let text = this.#wanted; text !== undefined; text = this.#wanted) {
        const list = await this.#ask(text);
        if (this.#wanted !== text) continue;
        this.#wanted = undefined;
        this.onFound(list);
      }
    } finally {
      this.#isRunning = false;
    }
  }

  /** Without suggestions the field still works. */
  #ask(text: string): Promise<readonly Suggestion[]> {
    return new Promise((resolve) => {
      const cancel = this.#clock.alarm(MAX_WAIT_MS, () => resolve([]));
      const end = (list: readonly Suggestion[]) => {
        cancel();
        resolve(list);
      };
      const ask = async () => end(await this.suggest(text));
      ask().catch(() => end([]));
    });
  }
}
