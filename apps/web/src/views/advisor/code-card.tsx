/** Code card: the advised policy as code for Redrive and other libraries. */
import type { Advice } from "@redrive/simulator";
import { adviceCode, type CodeTarget, codeFor, codeTargets } from "@redrive/simulator/export";
import { Card } from "../../components/card.tsx";
import { type CodeChoice, CodeView } from "../../exports/code-view.tsx";
import { whenIdle } from "../../worker/query.ts";
import { adviceQuery } from "./advisor-store.ts";

type Shown = CodeTarget | "destination";

/** The destination comes first, because only it includes the guards. */
const TARGETS: readonly CodeChoice<Shown>[] = [
  { value: "destination", label: "Redrive" },
  ...codeTargets.map(({ id, label }) => ({
    value: id,
    label: id === "redrive" ? "Redrive, one call" : label,
  })),
];

export function CodeCard({ advice }: { readonly advice: Advice }) {
  return (
    <Card title="Code" isBusy={adviceQuery.isBusy.value}>
      <CodeView
        first="destination"
        targets={TARGETS}
        codeOf={(target) => codeOf(advice, target)}
        whenIdle={() => whenIdle(adviceQuery.isBusy)}
      />
    </Card>
  );
}

function codeOf(advice: Advice, shown: Shown): { text: string; notes: readonly string[] } {
  if (shown === "destination") return { text: adviceCode(advice).destination, notes: [] };
  return codeFor(shown, advice.policy);
}
