/** Finding: one thing that will hurt: how bad, what happens, what to do, and a button that does it. */
import type { Severity } from "@redrive/simulator";
import type { FixableFinding } from "../../worker/lint-requests.ts";

interface FindingProps {
  readonly finding: FixableFinding;
  onFix?: (() => void) | undefined;
}

const WORDS: Readonly<Record<Severity, string>> = {
  error: "Error",
  warning: "Warning",
  info: "Note",
};

export function FindingItem({ finding, onFix }: FindingProps) {
  const { severity, id, field, sentence, fix, docs, fixed: mended } = finding;
  return (
    <li class={`finding ${severity}`}>
      <p class="finding-head">
        <strong>{WORDS[severity]}</strong> <code>{field}</code>
      </p>
      <p>{sentence}</p>
      <p class="finding-fix">{fix}</p>
      <div class="finding-foot">
        <code title={`The rule ${id} is explained in ${docs}`}>{docs}</code>
        {mended !== undefined && onFix !== undefined && (
          <button
            type="button"
            class="button small"
            aria-label={`Fix ${id} in ${field}: ${fix}`}
            onClick={onFix}
          >
            Fix
          </button>
        )}
      </div>
    </li>
  );
}
