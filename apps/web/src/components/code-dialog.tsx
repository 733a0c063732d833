/**
 * Code dialog: the policy as code for Redrive and other libraries. The view of the code, with notes
 * on the differences and a Copy button, is also a part of the Advisor.
 */
import { useSignal } from "@preact/signals";
import { type CodeTarget, codeFor, codeTargets } from "@redrive/simulator/export";
import { useEffect, useRef } from "preact/hooks";
import { copyText } from "./clipboard.ts";
import { Segmented } from "./controls.tsx";
import { hideCode, type ShownCode } from "./export-menu.ts";
import "./code-dialog.css";

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

// Code view: a policy as code for a chosen library, with notes on the differences and a Copy
// button.

interface CodeViewProps<Target extends string> {
  readonly targets: readonly CodeChoice<Target>[];
  /** The target shown first. */
  readonly first: Target;
  codeOf(target: Target): { readonly text: string; readonly notes: readonly string[] };
  /** Resolves when the shown code is current. Absent if it always is. */
  readonly whenIdle?: () => Promise<void>;
}

export interface CodeChoice<Target extends string> {
  readonly value: Target;
  readonly label: string;
}

export function CodeView<Target extends string>(props: CodeViewProps<Target>) {
  const { targets, first, codeOf, whenIdle } = props;
  const shown = useSignal(first);
  const status = useSignal("");
  const { text, notes } = codeOf(shown.value);
  const newest = useRef(text);
  newest.current = text;
  const copy = async () => {
    await whenIdle?.();
    status.value = (await copyText(newest.current))
      ? "Copied"
      : "Select the code and copy it by hand";
  };
  return (
    <>
      <div class="code-head">
        <Segmented
          label="Code for"
          isLabelHidden
          value={shown.value}
          options={targets}
          onChange={(target) => {
            shown.value = target;
            status.value = "";
          }}
        />
        <span class="code-tools">
          <output aria-live="polite">{status.value}</output>
          <button type="button" class="button small" onClick={copy}>
            Copy
          </button>
        </span>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling area must be reachable by keyboard. */}
      <section class="code" tabIndex={0} aria-label="Lines of code">
        <pre>
          <code>{text}</code>
        </pre>
      </section>
      {notes.length > 0 && (
        <ul class="code-notes">
          {notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
    </>
  );
}
