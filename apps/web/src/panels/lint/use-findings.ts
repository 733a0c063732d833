/** Use findings: the lint findings of a subject, requested from the worker whenever it changes. */
import { useSignal } from "@preact/signals";
import type { LintContext, LintSubject } from "@redrive/simulator";
import { useId, useLayoutEffect, useMemo } from "preact/hooks";
import { createWorkerQuery, type Query } from "../../worker/query.ts";
import type { Input, Output } from "../../worker/requests.ts";

/** The last findings stay until new ones arrive, so that nothing flickers while a slider moves. */
export function useFindings(
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
