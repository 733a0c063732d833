/** Code dialog: the policy as code for Redrive and for others, with what each does otherwise. */
import { useSignal } from "@preact/signals";
import { type CodeTarget, codeFor, codeTargets } from "@redrive/simulator/export";
import { useEffect, useRef } from "preact/hooks";
import { Segmented } from "../parts/segmented.tsx";
import { hideCode, type ShownCode } from "./code-sheet.ts";

const TARGETS = codeTargets.map(({ id, label }) => ({ value: id, label }));

export function CodeDialog({ policy, title }: ShownCode) {
  const dialog = useRef<HTMLDialogElement>(null);
  const target = useSignal<CodeTarget>("redrive");
  const said = useSignal("");
  useEffect(() => dialog.current?.showModal(), []);
  const { text, notes } = codeFor(target.value, policy);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      said.value = "Copied";
    } catch {
      said.value = "Select the code and copy it by hand";
    }
  };
  return (
    <dialog ref={dialog} class="sheet code-sheet" aria-labelledby="code-title" onClose={hideCode}>
      <h2 id="code-title">{title} as code</h2>
      <Segmented
        label="For"
        isLabelHidden
        value={target.value}
        options={TARGETS}
        onChange={(id) => {
          target.value = id;
          said.value = "";
        }}
      />
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keys. */}
      <pre class="code" tabIndex={0}>
        <code>{text}</code>
      </pre>
      {notes.length > 0 && (
        <ul class="code-notes">
          {notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
      <form method="dialog" class="dialog-actions">
        <output aria-live="polite">{said.value}</output>
        <button type="button" class="button accent" onClick={copy}>
          Copy
        </button>
        <button type="submit" class="button">
          Close
        </button>
      </form>
    </dialog>
  );
}
