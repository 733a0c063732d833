/**
 * Action button: changes something in the service. It asks first if the change cannot be undone,
 * cannot be pressed twice, and shows why the service refused.
 */
import { useSignal } from "@preact/signals";
import { problemOf } from "../service/client.ts";

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
