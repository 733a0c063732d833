/** Lint subject: every finding in a shipped scenario can be mended in place, and is then gone. */
import {
  type CallsDocument,
  checkScenario,
  lint,
  mend,
  type ScenarioDocument,
  scenarios,
} from "@redrive/simulator";
import { describe, expect, it } from "vitest";
import { isCalls } from "./document.ts";
import { lintContextOf, lintSubjectOf, withMended } from "./lint-subject.ts";

const CALLS: readonly (readonly [string, CallsDocument])[] = Object.entries(
  scenarios as Readonly<Record<string, ScenarioDocument>>,
).flatMap(([name, document]) => (isCalls(document) ? [[name, document] as const] : []));

function idsIn(document: CallsDocument): readonly string[] {
  return lint(lintSubjectOf(document), lintContextOf(document)).map(
    ({ id, field }) => `${id} ${field}`,
  );
}

describe("what lint reads of a scenario", () => {
  it.each(CALLS)("%s stays legal when it is mended, and the finding goes", (_, document) => {
    const subject = lintSubjectOf(document);
    const context = lintContextOf(document);
    for (const finding of lint(subject, context)) {
      const mended = mend(subject, finding, context);
      if (mended === undefined) continue;
      const next = withMended(document, mended as Parameters<typeof withMended>[1]);
      expect(checkScenario(next)).toEqual([]);
      expect(idsIn(next)).not.toContain(`${finding.id} ${finding.field}`);
    }
  });

  it("is all layers together where there are several", () => {
    const nested = scenarios["ladder-0-plain"] as CallsDocument;
    expect(idsIn(nested)).toContain("nested-layers tiers");
  });
});
