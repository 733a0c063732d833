/** Code dialog: the policy as code for Redrive and other libraries. */
import { type CodeTarget, codeFor, codeTargets } from "@redrive/simulator/export";
import { useEffect, useRef } from "preact/hooks";
import { hideCode, type ShownCode } from "./code-dialog-state.ts";
import { type CodeChoice, CodeView } from "./code-view.tsx";

const TARGETS: readonly CodeChoice<CodeTarget>[] = codeTargets.map(({ id, label }) => ({
  value: id,
  label,
}));

export function CodeDialog({ policy, title }: ShownCode) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="sheet code-dialog" aria-labelledby="code-title" onClose={hideCode}>
      <h2 id="code-title">{title} as code</h2>
      <CodeView first="redrive" targets={TARGETS} codeOf={(target) => codeFor(target, policy)} />
      <form method="dialog" class="dialog-actions">
        <button type="submit" class="button">
          Close
        </button>
      </form>
    </dialog>
  );
}
