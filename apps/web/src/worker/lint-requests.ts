/** Lint requests: what will hurt, each with the document that its fix would leave. */
import {
  type Finding,
  fixFinding,
  type LintContext,
  type LintSubject,
  lint,
} from "@redrive/simulator";

export interface MendableFinding extends Finding {
  /** The subject with the fix carried out; left out where no change alone does it. */
  readonly mended?: LintSubject;
}

export function lintAndMend(
  subject: LintSubject,
  context: LintContext,
): readonly MendableFinding[] {
  const findings = lint(subject, context);
  return findings.map((finding) => {
    const mended = fixFinding(subject, finding, context, findings);
    return mended === undefined ? finding : { ...finding, mended };
  });
}
