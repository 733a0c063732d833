/** Lint panel: live findings about a policy, a destination or a set of tiers, beside its controls. */
import { useSignal } from "@preact/signals";
import type { DestinationDocument, PolicyDocument } from "@redrive/core";
import type { LintContext, LintSubject, LintTiers, Severity } from "@redrive/simulator";
import { useId, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { FixableFinding } from "../worker/lint-requests.ts";
import {
  createWorkerQuery,
  type Input,
  type Output,
  type Query,
  whenIdle,
} from "../worker/query.ts";
import { Card } from "./frames.tsx";
import "./lint-panel.css";

interface LintFacts {
  /** The number of clients that share the destination, if known. */
  readonly clients?: number;
  readonly outageMs?: number;
  /** Other facts about the calls. */
  readonly context?: LintContext;
  /** Default: "Lint". */
  readonly title?: string;
}

/** `onFix` gets the fixed document, of the same kind. Without it there are no Fix buttons. */
type LintPanelProps = LintFacts &
  (
    | {
        readonly policy: PolicyDocument;
        readonly subject?: never;
        onFix?(fixed: PolicyDocument): void;
      }
    | {
        readonly policy?: never;
        readonly subject: DestinationDocument | LintTiers;
        onFix?(fixed: DestinationDocument | LintTiers): void;
      }
  );

export function LintPanel(props: LintPanelProps) {
  const { clients, outageMs, context, title = "Lint" } = props;
  const query = useFindings(props.subject ?? props.policy, {
    ...context,
    ...(clients !== undefined && { clients }),
    ...(outageMs !== undefined && { outageMs }),
  });
  const findings = query.value.value ?? [];
  const isBusy = query.isBusy.value;
  const isOpen = useSignal(false);
  const summary = useRef<HTMLParagraphElement>(null);
  const fix = props.onFix as ((fixed: LintSubject) => void) | undefined;
  // The button disappears with its finding, so focus moves to the summary.
  const applyFix = async (finding: FixableFinding) => {
    summary.current?.focus();
    // Fix the current document, even if the click came before its findings.
    await whenIdle(query.isBusy);
    const now = query.value.peek()?.find((one) => isSame(one, finding));
    if (now?.fixed !== undefined) fix?.(now.fixed);
  };
  return (
    <Card title={title} class="lint">
      <p
        ref={summary}
        class={query.value.value?.length === 0 ? "lint-summary clean" : "lint-summary"}
        tabIndex={-1}
        aria-live="polite"
        aria-busy={isBusy}
      >
        {summaryOf(query.value.value, query.problem.value)}
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
              onFix={fix && (() => void applyFix(finding))}
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
  if (problem !== "") return `Lint cannot check this: ${problem}.`;
  if (findings === undefined) return "Checking…";
  if (findings.length === 0) return "No findings.";
  const counts = NOUNS.map(([severity, one, many]) => {
    const count = findings.filter((finding) => finding.severity === severity).length;
    return count === 0 ? "" : `${count} ${count === 1 ? one : many}`;
  });
  return `${counts.filter(Boolean).join(", ")}: ${namesOf(findings)}.`;
}

/** The same rule can apply to several tiers. */
function namesOf(findings: readonly FixableFinding[]): string {
  return [...new Set(findings.map(({ id }) => id))].join(", ");
}

interface FindingProps {
  readonly finding: FixableFinding;
  onFix?: (() => void) | undefined;
}

const SEVERITY_LABELS: Readonly<Record<Severity, string>> = {
  error: "Error",
  warning: "Warning",
  info: "Note",
};

/** Severity, problem, fix, the documentation of the rule, and a button that applies the fix. */
function FindingItem({ finding, onFix }: FindingProps) {
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

/**
 * The findings of a subject, requested whenever it changes. The last ones stay until new ones arrive,
 * so that nothing flickers while a slider moves.
 */
function useFindings(
  subject: LintSubject,
  context: LintContext,
): Query<Input<"lint">, Output<"lint">> {
  const input = JSON.stringify({ subject, context });
  const current = useSignal(input);
  const lane = useId();
  const query = useMemo(
    () => createWorkerQuery(`lint ${lane}`, "lint", () => JSON.parse(current.value)),
    [lane, current],
  );
  useLayoutEffect(() => {
    current.value = input;
  }, [current, input]);
  return query;
}

/** The section of the lint documentation about a rule, as plain text. The build puts it beside the pages. */
async function loadRuleDocs(id: string): Promise<string> {
  const response = await fetch("./lint.txt");
  if (!response.ok) throw new Error(`lint.txt has the status ${response.status}`);
  return sectionOf(await response.text(), id);
}

/** The text below the heading of the rule, up to the next heading. */
export function sectionOf(page: string, id: string): string {
  const sections = page.split(/^#{2,3} /mu);
  const [heading, ...lines] = sections.find((one) => one.startsWith(`${id}\n`))?.split("\n") ?? [];
  if (heading === undefined) return "This rule has no documentation.";
  return lines.join(" ").replaceAll("`", "").replaceAll(/\s+/gu, " ").trim();
}
