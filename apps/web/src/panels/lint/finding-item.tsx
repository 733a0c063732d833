/** Finding item: severity, problem, fix, and a button that applies the fix. */
import type { Severity } from "@redrive/simulator";
import type { FixableFinding } from "../../worker/lint-requests.ts";

interface FindingProps {
  readonly finding: FixableFinding;
  onFix?: (() => void) | undefined;
}

const SEVERITY_LABELS: Readonly<Record<Severity, string>> = {
  error: "Error",
  warning: "Warning",
  info: "Note",
};

export function FindingItem({ finding, onFix }: FindingProps) {
  const { severity, id, field, sentence, fix, docs, fixed } = finding;
  return (
    <li class={`finding ${severity}`}>
      <p class="finding-head">
        <strong>{SEVERITY_LABELS[severity]}</strong> <code>{field}</code>
      </p>
      <p>{sentence}</p>
      <p class="finding-fix">{fix}</p>
      <div class="finding-foot">
        <code title={`Rule ${id} is documented in ${docs}`}>{docs}</code>
        {fixed !== undefined && onFix !== undefined && (
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
