/** Lint: what will hurt in a policy, a destination or a set of tiers, live beside its controls. */
import { useSignal } from "@preact/signals";
import type { DestinationDocument, PolicyDocument } from "@redrive/core";
import type { LintContext, LintSubject, LintTiers, Severity } from "@redrive/simulator";
import { useRef } from "preact/hooks";
import { Card } from "../../parts/card.tsx";
import type { FixableFinding } from "../../worker/lint-requests.ts";
import { whenIdle } from "../../worker/query.ts";
import { FindingItem } from "./finding-item.tsx";
import { useFindings } from "./use-findings.ts";
import "./lint.css";

interface Known {
  /** How many clients share the destination, where the view knows it. */
  readonly clients?: number;
  readonly outageMs?: number;
  /** Whatever else is known of the calls. */
  readonly context?: LintContext;
  /** Default: "What will hurt". */
  readonly title?: string;
}

/** `onFix` gets the same kind of document back, changed; left out: no buttons. */
type LintPanelProps = Known &
  (
    | {
        readonly policy: PolicyDocument;
        readonly subject?: never;
        onFix?(mended: PolicyDocument): void;
      }
    | {
        readonly policy?: never;
        readonly subject: DestinationDocument | LintTiers;
        onFix?(mended: DestinationDocument | LintTiers): void;
      }
  );

export function LintPanel(props: LintPanelProps) {
  const { clients, outageMs, context, title = "What will hurt" } = props;
  const answer = useFindings(props.subject ?? props.policy, {
    ...context,
    ...(clients !== undefined && { clients }),
    ...(outageMs !== undefined && { outageMs }),
  });
  const findings = answer.value.value ?? [];
  const isBusy = answer.isBusy.value;
  const isOpen = useSignal(false);
  const summary = useRef<HTMLParagraphElement>(null);
  const fix = props.onFix as ((mended: LintSubject) => void) | undefined;
  // The button goes with its finding: the keyboard stays in the panel.
  const fixAndStay = async (finding: FixableFinding) => {
    summary.current?.focus();
    // The document that is mended is the one that stands there, however fast the click was.
    await whenIdle(answer.isBusy);
    const now = answer.value.peek()?.find((one) => isSame(one, finding));
    if (now?.fixed !== undefined) fix?.(now.fixed);
  };
  return (
    <Card title={title} class="lint">
      <p
        ref={summary}
        class={findings.length === 0 ? "lint-summary clean" : "lint-summary"}
        tabIndex={-1}
        aria-live="polite"
        aria-busy={isBusy}
      >
        {summaryOf(answer.value.value, answer.problem.value)}
      </p>
      <button
        type="button"
        class="button small lint-toggle"
        aria-expanded={isOpen.value}
        disabled={findings.length === 0}
        onClick={() => {
          isOpen.value = !isOpen.value;
        }}
      >
        {isOpen.value ? "Hide findings" : "Show findings"}
      </button>
      {findings.length > 0 && (
        <ul class={isOpen.value ? "findings" : "findings folded"} aria-busy={isBusy}>
          {findings.map((finding) => (
            <FindingItem
              key={`${finding.id} ${finding.field}`}
              finding={finding}
              onFix={fix && (() => void fixAndStay(finding))}
            />
          ))}
        </ul>
      )}
    </Card>
  );
}

const NOUNS: readonly (readonly [Severity, string, string])[] = [
  ["error", "error", "errors"],
  ["warning", "warning", "warnings"],
  ["info", "note", "notes"],
];

function isSame(one: FixableFinding, other: FixableFinding): boolean {
  return one.id === other.id && one.field === other.field;
}

function summaryOf(findings: readonly FixableFinding[] | undefined, problem: string): string {
  if (problem !== "") return `Lint cannot read this: ${problem}.`;
  if (findings === undefined) return "Looking…";
  if (findings.length === 0) return "Lint finds nothing that hurts.";
  const counts = NOUNS.map(([severity, one, many]) => {
    const count = findings.filter((finding) => finding.severity === severity).length;
    return count === 0 ? "" : `${count} ${count === 1 ? one : many}`;
  });
  return `${counts.filter(Boolean).join(", ")}: ${namesOf(findings)}.`;
}

/** With tiers the same rule may be found twice. */
function namesOf(findings: readonly FixableFinding[]): string {
  return [...new Set(findings.map(({ id }) => id))].join(", ");
}
