/** Lint requests: what will hurt, each with the document that its fix would leave. */
import { type Finding, type LintContext, type LintSubject, lint, mend } from "@redrive/simulator";

export interface FixableFinding extends Finding {
  /** The subject with the fix carried out; left out where no change alone does it. */
  readonly fixed?: LintSubject;
}

export function lintWithFixes(
  subject: LintSubject,
  context: LintContext,
): readonly FixableFinding[] {
  const findings = lint(subject, context);
  return findings.map((finding) => {
    const mended = mend(subject, finding, context, findings);
    return mended === undefined ? finding : { ...finding, mended };
  });
}
