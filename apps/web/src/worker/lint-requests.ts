/** Lint requests: the findings, each with the fixed document. */
import { type Finding, type LintContext, type LintSubject, lint, mend } from "@redrive/simulator";

export interface FixableFinding extends Finding {
  /** The subject with the fix applied. Absent if the fix cannot be automated. */
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
