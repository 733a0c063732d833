/** Code view: a policy as code for a chosen library, with notes on the differences and a Copy button. */
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { copyText } from "../components/clipboard.ts";
import { Segmented } from "../components/segmented.tsx";
import "./code.css";

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
