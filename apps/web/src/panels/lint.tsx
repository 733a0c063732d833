/** Lint: what will hurt in a policy, beside its controls; a placeholder until it is built. */
import type { PolicyDocument } from "@redrive/core";

interface LintPanelProps {
  readonly policy: PolicyDocument;
  /** How many clients share the destination, where the view knows it. */
  readonly clients?: number;
  readonly outageMs?: number;
}

export function LintPanel(_props: LintPanelProps) {
  return null;
}
