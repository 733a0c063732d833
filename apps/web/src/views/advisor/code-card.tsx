/** Code card: the advised policy as code, for Redrive and for others, with what they do otherwise. */
import { useSignal } from "@preact/signals";
import type { Advice } from "@redrive/simulator";
import { adviceCode, type CodeTarget, codeFor, codeTargets } from "@redrive/simulator/export";
import { Card } from "../../parts/card.tsx";
import { Segmented } from "../../parts/segmented.tsx";

type Shown = CodeTarget | "destination";

/** The destination first: it alone has the guards. */
const TARGETS: readonly { readonly value: Shown; readonly label: string }[] = [
  { value: "destination", label: "Redrive" },
  ...codeTargets.map(({ id, label }) => ({
    value: id as Shown,
    label: id === "redrive" ? "Redrive, one call" : label,
  })),
];

export function CodeCard({ advice }: { readonly advice: Advice }) {
  const shown = useSignal<Shown>("destination");
  const said = useSignal("");
  const { text, notes } = codeOf(advice, shown.value);
  const copy = async () => {
    said.value = await copied(text);
  };
  return (
    <Card
      title="Code"
      aside={
        <span class="code-tools">
          <output aria-live="polite">{said.value}</output>
          <button type="button" class="button small" onClick={copy}>
            Copy
          </button>
        </span>
      }
    >
      <Segmented
        label="Code for"
        isLabelHidden
        value={shown.value}
        options={TARGETS}
        onChange={(next) => {
          shown.value = next;
          said.value = "";
        }}
      />
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: long lines are scrolled by keyboard. */}
      <section class="code" tabIndex={0} aria-label="Lines of code">
        <pre>
          <code>{text}</code>
        </pre>
      </section>
      {notes.length > 0 && (
        <ul class="notes">
          {notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function codeOf(advice: Advice, shown: Shown): { text: string; notes: readonly string[] } {
  if (shown === "destination") return { text: adviceCode(advice).destination, notes: [] };
  return codeFor(shown, advice.policy);
}

async function copied(text: string): Promise<string> {
  try {
    await navigator.clipboard.writeText(text);
    return "Copied";
  } catch {
    return "The clipboard is closed to pages";
  }
}
