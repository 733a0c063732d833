/** Lint subject: a fix removes its finding from every shipped scenario. */
import {
  type CallsDocument,
  checkScenario,
  fixFinding,
  lint,
  type ScenarioDocument,
  scenarios,
} from "@redrive/simulator";
import { describe, expect, it } from "vitest";
import { isCalls } from "./document.ts";
import { lintContextOf, lintSubjectOf, withFix } from "./lint-subject.ts";

const CALLS: readonly (readonly [string, CallsDocument])[] = Object.entries(
  scenarios as Readonly<Record<string, ScenarioDocument>>,
).flatMap(([name, document]) => (isCalls(document) ? [[name, document] as const] : []));

function idsIn(document: CallsDocument): readonly string[] {
  return lint(lintSubjectOf(document), lintContextOf(document)).map(
    ({ id, field }) => `${id} ${field}`,
  );
}

describe("the lint subject of a scenario", () => {
  it.each(CALLS)("%s stays valid after a fix, and the finding is gone", (_, document) => {
    const subject = lintSubjectOf(document);
    const context = lintContextOf(document);
    for (const finding of lint(subject, context)) {
      const fixed = fixFinding(subject, finding, context);
      if (fixed === undefined) continue;
      const next = withFix(document, fixed as Parameters<typeof withFix>[1]);
      expect(checkScenario(next)).toEqual([]);
      expect(idsIn(next)).not.toContain(`${finding.id} ${finding.field}`);
    }
  });

  it("contains all layers if there are several", () => {
    const nested = scenarios["ladder-0-plain"] as CallsDocument;
    expect(idsIn(nested)).toContain("nested-layers tiers");
  });
});
