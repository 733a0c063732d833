/** Use findings: what lint says of a subject now, asked of the worker whenever the subject changes. */
import { type ReadonlySignal, useSignal } from "@preact/signals";
import type { LintContext, LintSubject } from "@redrive/simulator";
import { useEffect, useId } from "preact/hooks";
import { ask } from "../../worker/client.ts";
import type { MendableFinding } from "../../worker/lint-requests.ts";

export interface Found {
  /** Undefined until the first answer. */
  readonly findings?: readonly MendableFinding[];
  /** Why lint could not read the subject. */
  readonly problem?: string;
}

/** The answer before stays until the next one comes, so that nothing flickers under a slider. */
export function useFindings(subject: LintSubject, context: LintContext): ReadonlySignal<Found> {
  const found = useSignal<Found>({});
  const lane = useId();
  const question = JSON.stringify({ subject, context });
  useEffect(() => {
    let isCurrent = true;
    ask(`lint ${lane}`, "lint", JSON.parse(question)).then(
      (findings) => {
        if (isCurrent && findings !== undefined) found.value = { findings };
      },
      (error: Error) => {
        if (isCurrent) found.value = { problem: error.message };
      },
    );
    return () => {
      isCurrent = false;
    };
  }, [question, lane, found]);
  return found;
}
