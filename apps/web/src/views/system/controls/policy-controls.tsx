/** Policy controls: how a layer retries. With several layers, the reader chooses one. */
import { resolvePolicy } from "@redrive/core";
import type { CallsDocument } from "@redrive/simulator";
import { policySummary } from "@redrive/simulator/text";
import { Card } from "../../../components/card.tsx";
import { DurationField } from "../../../components/duration-field.tsx";
import { Field } from "../../../components/field.tsx";
import { Segmented } from "../../../components/segmented.tsx";
import { Select } from "../../../components/select.tsx";
import { policyOf, tiersOf, withPolicy, withWholePolicy } from "../document/document.ts";
import { strategyLabels, strategyOf, withLayerStrategy } from "../document/strategy.ts";
import { chooseLayer, editCalls, layer } from "../state/system-store.ts";
import { ServicePolicy } from "./service-policy.tsx";

const STRATEGIES = [
  {
    label: "Waits",
    options: Object.entries(strategyLabels).map(([value, label]) => ({ value, label })),
  },
];

export function PolicyControls({ document }: { readonly document: CallsDocument }) {
  const tiers = tiersOf(document);
  const index = layer.value;
  const policy = policyOf(document, index);
  const strategy = strategyOf(policy);
  return (
    <Card title="Policy">
      {tiers.length > 1 && (
        <Segmented
          label="Layer"
          value={String(index)}
          options={tiers.map(({ name }, layerIndex) => ({
            value: String(layerIndex),
            label: name ?? `layer ${layerIndex + 1}`,
          }))}
          onChange={(value) => chooseLayer(Number(value))}
        />
      )}
      <ServicePolicy
        policy={policy}
        onPick={(picked) => editCalls((one) => withWholePolicy(one, index, picked))}
      />
      <Select
        label="Strategy"
        value={strategy}
        groups={STRATEGIES}
        {...(strategy === "" && { emptyLabel: "custom" })}
        onChange={(name) => editCalls((one) => withLayerStrategy(one, index, name))}
      />
      <PolicyFields document={document} index={index} />
      <p class="field-hint">{policySummary(policy)}</p>
    </Card>
  );
}

function PolicyFields({ document, index }: { readonly document: CallsDocument; index: number }) {
  const policy = resolvePolicy(policyOf(document, index));
  const set = (change: Parameters<typeof withPolicy>[2]) =>
    editCalls((one) => withPolicy(one, index, change));
  const isListed = policy.delaysMs !== undefined;
  const neverWaits = policy.initialDelayMs === 0 && policy.backoff === "FIXED";
  return (
    <>
      <Field
        label="Attempts"
        unit="calls"
        value={policy.maxAttempts}
        min={1}
        max={50}
        isDisabled={isListed}
        onInput={(value) => set({ maxAttempts: Math.round(value) })}
      />
      <DurationField
        label="Base"
        value={policy.initialDelayMs ?? 0}
        min={0}
        max={60_000}
        isDisabled={isListed || neverWaits}
        onInput={(value) => set({ initialDelayMs: Math.round(value) })}
      />
      <DurationField
        label="Max"
        value={policy.maxDelayMs ?? 0}
        min={0}
        max={600_000}
        isDisabled={isListed || policy.backoff === "FIXED"}
        onInput={(value) => set({ maxDelayMs: Math.round(value) })}
      />
      <DurationField
        label="Attempt timeout"
        value={policy.attemptTimeoutMs}
        min={100}
        max={600_000}
        onInput={(value) => set({ attemptTimeoutMs: Math.round(value) })}
      />
      <DurationField
        label="Gives up after"
        value={policy.totalBudgetMs}
        min={100}
        max={3_600_000}
        onInput={(value) => set({ totalBudgetMs: Math.round(value) })}
      />
    </>
  );
}
