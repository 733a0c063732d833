/** JSON editor: the scenario document, for reading, pasting, and changing fields without a control. */
import { useSignal } from "@preact/signals";
import { checkScenario, type ScenarioDocument } from "@redrive/simulator";
import { useId } from "preact/hooks";
import { Card } from "../../../components/card.tsx";
import { current, replace } from "../state/system-store.ts";

export function JsonEditor() {
  /** The unsaved text; undefined if there is none. */
  const draft = useSignal<string | undefined>(undefined);
  const problem = useSignal("");
  const id = useId();
  const apply = () => {
    problem.value = applyText(draft.value ?? "");
    if (problem.value === "") draft.value = undefined;
  };
  return (
    <Card>
      <details class="more">
        <summary>Scenario as JSON</summary>
        <label class="visually-hidden" for={id}>
          Scenario document
        </label>
        <textarea
          id={id}
          class="text-area mono"
          rows={16}
          spellcheck={false}
          value={draft.value ?? JSON.stringify(current.value, null, 2)}
          aria-describedby={`${id}-problem`}
          onInput={({ currentTarget }) => {
            draft.value = currentTarget.value;
          }}
        />
        <p id={`${id}-problem`} class="json-problem" role="alert">
          {problem.value}
        </p>
        <div class="compare-bar">
          <button type="button" class="button" disabled={draft.value === undefined} onClick={apply}>
            Apply
          </button>
          <button
            type="button"
            class="button quiet"
            disabled={draft.value === undefined}
            onClick={() => {
              draft.value = undefined;
              problem.value = "";
            }}
          >
            Discard
          </button>
          <span class="faint hint">
            Save it as a file and run it with <code>redrive sim run FILE</code>. The same seed gives
            the same numbers.
          </span>
        </div>
      </details>
    </Card>
  );
}

/** Shows the scenario in the text. Returns an error message, or "". */
function applyText(text: string): string {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (error) {
    return `This is not JSON: ${(error as Error).message}`;
  }
  const problems = checkScenario(document);
  if (problems.length > 0) return problems.map(({ message }) => message).join("; ");
  replace(document as ScenarioDocument);
  return "";
}
