/** Guard switches: turns each guard on or off next to the chart, and sets how many layers retry. */
import type { CallsDocument } from "@redrive/simulator";
import { Segmented } from "../../../components/segmented.tsx";
import {
  type GuardName,
  type GuardOptions,
  guardNames,
  guardOf,
  MAX_LAYERS,
  tiersOf,
  withGuard,
  withLayers,
} from "../document/document.ts";
import { editCalls } from "../state/system-store.ts";

/** The options of a guard when it is switched on: defaults, then the last ones. */
const remembered: { [G in GuardName]: GuardOptions<G> } = {
  retryBudget: { ratio: 0.1, minPerSecond: 0 },
  breaker: { failureRate: 0.5, openMs: 5000 },
  concurrency: { algorithm: "GRADIENT", max: 64 },
  hedge: { after: "p95" },
};

export const guardLabels: Readonly<Record<GuardName, string>> = {
  retryBudget: "Retry budget",
  breaker: "Circuit breaker",
  concurrency: "Adaptive concurrency",
  hedge: "Hedge",
};

/** Changes the options of a guard; undefined switches it off. */
export function setGuard<G extends GuardName>(
  guard: G,
  options: GuardOptions<G> | undefined,
): void {
  editCalls((document) => {
    remembered[guard] = guardOf(document, guard) ?? remembered[guard];
    return withGuard(document, guard, options);
  });
}

export function GuardSwitches({ document }: { readonly document: CallsDocument }) {
  return (
    <div class="guard-switches">
      <fieldset class="chips">
        <legend>Guards</legend>
        <div>
          {guardNames.map((guard) => (
            <Chip key={guard} guard={guard} document={document} />
          ))}
        </div>
      </fieldset>
      <Layers document={document} />
    </div>
  );
}

function Chip({ guard, document }: { readonly guard: GuardName; document: CallsDocument }) {
  const isOn = guardOf(document, guard) !== undefined;
  return (
    <label class="chip">
      <input
        type="checkbox"
        checked={isOn}
        onChange={() => setGuard(guard, isOn ? undefined : remembered[guard])}
      />
      <span>{guardLabels[guard]}</span>
    </label>
  );
}

function Layers({ document }: { readonly document: CallsDocument }) {
  const count = tiersOf(document).length;
  const maxCount = Math.max(MAX_LAYERS, count);
  return (
    <Segmented
      label="Layers that retry"
      value={String(count)}
      options={Array.from({ length: maxCount }, (_, index) => ({
        value: String(index + 1),
        label: index === 0 ? "one" : `${index + 1} nested`,
      }))}
      onChange={(value) => editCalls((one) => withLayers(one, Number(value)))}
    />
  );
}
