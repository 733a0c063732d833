/** Lint requests: the findings, each with the fixed document. */
import {
  type Finding,
  fixFinding,
  type LintContext,
  type LintSubject,
  lint,
} from "@redrive/simulator";

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
    const fixed = fixFinding(subject, finding, context, findings);
    return fixed === undefined ? finding : { ...finding, fixed };
  });
}
