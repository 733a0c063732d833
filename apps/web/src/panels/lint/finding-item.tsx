/** Finding item: severity, problem, fix, the documentation of the rule, and a button that applies the fix. */
import { useSignal } from "@preact/signals";
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
  const { severity, id, field, sentence, fix, fixed } = finding;
  return (
    <li class={`finding ${severity}`}>
      <p class="finding-head">
        <strong>{SEVERITY_LABELS[severity]}</strong> <code>{field}</code>
      </p>
      <p>{sentence}</p>
      <p class="finding-fix">{fix}</p>
      <div class="finding-foot">
        <RuleDocs id={id} />
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

function RuleDocs({ id }: { readonly id: string }) {
  const text = useSignal("Loading…");
  const load = async () => {
    const { loadRuleDocs } = await import("./rule-docs.ts");
    text.value = await loadRuleDocs(id);
  };
  return (
    <details
      class="rule-docs"
      onToggle={() => {
        load().catch(() => {
          text.value = "The documentation could not be loaded.";
        });
      }}
    >
      <summary>
        <code>{id}</code>
      </summary>
      <p>{text.value}</p>
    </details>
  );
}
