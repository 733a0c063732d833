/** System: a placeholder that keeps its link; the view itself is still to be built. */
import { signal } from "@preact/signals";
import type { RunOf, View } from "../app/view.ts";
import { Card } from "../parts/card.tsx";

const OPENING: RunOf<"system"> = { view: "system", seed: 1, scenarios: ["failover"] };
const run = signal(OPENING);

function Controls() {
  return <p class="faint">The controls of this view are being built.</p>;
}

function Stage() {
  return <Card title="System">This view is being built.</Card>;
}

export const systemView: View<"system"> = {
  id: "system",
  explanation: "This view is being built. Its links already open here and keep what they hold.",
  Controls,
  Stage,
  state: () => run.value,
  open(next) {
    run.value = next;
  },
  reset() {
    run.value = OPENING;
  },
};
