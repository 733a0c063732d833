/**
 * Form: what pages use to change something: a button that acts in the service, a button that copies,
 * and a field for a word.
 */
import { type Signal, useSignal } from "@preact/signals";
import { systemClock } from "@redrive/core";
import { useEffect, useId } from "preact/hooks";
import { copyText } from "../../components/clipboard.ts";
import { problemOf } from "./client.ts";

interface ActionButtonProps {
  readonly label: string;
  /** A question to answer before the action. Default: none. */
  readonly question?: string;
  readonly isAccent?: boolean;
  readonly isDisabled?: boolean;
  readonly isSmall?: boolean;
  /** The key that presses the button. */
  readonly clickKey?: string;
  act(): Promise<unknown>;
  /** After the action has succeeded. */
  onDone?(): void;
}

/**
 * Changes something in the service. It asks first if the change cannot be undone, cannot be pressed
 * twice, and shows why the service refused.
 */
export function ActionButton(props: ActionButtonProps) {
  const { label, question, isAccent = false, isDisabled = false } = props;
  const isAsking = useSignal(false);
  const isBusy = useSignal(false);
  const problem = useSignal("");
  const run = async () => {
    isAsking.value = false;
    isBusy.value = true;
    problem.value = "";
    try {
      await props.act();
      props.onDone?.();
    } catch (error) {
      problem.value = problemOf(error);
    }
    isBusy.value = false;
  };
  return (
    <span class="action">
      {isAsking.value ? (
        <span class="question">
          {question}{" "}
          <button type="button" class="button accent small" onClick={run}>
            Yes
          </button>{" "}
          <button
            type="button"
            class="button small"
            onClick={() => {
              isAsking.value = false;
            }}
          >
            No
          </button>
        </span>
      ) : (
        <button
          type="button"
          class={`button ${isAccent ? "accent" : ""} ${props.isSmall === true ? "small" : ""}`}
          disabled={isDisabled || isBusy.value}
          data-key={props.clickKey}
          onClick={() => {
            if (question === undefined) void run();
            else isAsking.value = true;
          }}
        >
          {label}
        </button>
      )}
      {problem.value !== "" && (
        <span class="problem" role="alert">
          {problem.value}
        </span>
      )}
    </span>
  );
}

const COPIED_SHOWN_MS = 2500;

/** Copies a text and says whether that worked, for a moment. */
export function CopyButton({ text, label }: { readonly text: string; readonly label: string }) {
  const status = useSignal("");
  const copy = async () => {
    status.value = (await copyText(text)) ? "Copied" : "The browser denied access";
    systemClock.alarm(COPIED_SHOWN_MS, () => {
      status.value = "";
    });
  };
  return (
    <button type="button" class="button" onClick={copy}>
      <span aria-live="polite">{status.value === "" ? label : status.value}</span>
    </button>
  );
}

interface TextInputProps {
  readonly label: string;
  readonly value: string;
  readonly placeholder?: string;
  readonly hint?: string;
  /** The key that moves the focus here. */
  readonly focusKey?: string;
  onChange(value: string): void;
}

/** A labeled field for a word, applied when the user presses Enter or leaves it. */
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

/**
 * What a user types into a field until it applies. The page is drawn again while they type, and would
 * otherwise put the old value back. The text follows the value when that changes elsewhere.
 */
export function useTypedText(value: string): Signal<string> {
  const text = useSignal(value);
  useEffect(() => {
    text.value = value;
  }, [value]);
  return text;
}
