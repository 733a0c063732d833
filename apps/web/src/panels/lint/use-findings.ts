/** Use findings: what lint says of a subject now, asked of the worker whenever the subject changes. */
import { useSignal } from "@preact/signals";
import type { LintContext, LintSubject } from "@redrive/simulator";
import { useId, useLayoutEffect, useMemo } from "preact/hooks";
import { createWorkerQuery, type Query } from "../../worker/query.ts";
import type { Input, Output } from "../../worker/requests.ts";

/** The answer before stays until the next one comes, so that nothing flickers under a slider. */
export function useFindings(
  subject: LintSubject,
  context: LintContext,
): Query<Input<"lint">, Output<"lint">> {
  const question = JSON.stringify({ subject, context });
  const asked = useSignal(question);
  const lane = useId();
  const answer = useMemo(
    () => createWorkerQuery(`lint ${lane}`, "lint", () => JSON.parse(asked.value)),
    [lane, asked],
  );
  useLayoutEffect(() => {
    asked.value = question;
  }, [asked, question]);
  return answer;
}
