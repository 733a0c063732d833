/** Policy controls: how a layer retries. With several layers, the reader chooses one. */
import { useSignal } from "@preact/signals";
import { type PolicyDocument, resolvePolicy } from "@redrive/core";
import type { CallsDocument } from "@redrive/simulator";
import { policySummary } from "@redrive/simulator/text";
import { useEffect } from "preact/hooks";
import { DurationField, Field, Segmented, Select } from "../../components/controls.tsx";
import { Card } from "../../components/frames.tsx";
import { isServed } from "../../components/pages.ts";
import {
  isSame,
  policyOf,
  strategyLabels,
  strategyOf,
  tiersOf,
  withLayerStrategy,
  withPolicy,
  withWholePolicy,
} from "./document.ts";
import { chooseLayer, editCalls, layer } from "./system-store.ts";

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

interface ListedPolicy {
  readonly policyId: string;
  readonly source: string;
  readonly document: PolicyDocument;
}

interface ServicePolicyProps {
  readonly policy: PolicyDocument;
  onPick(policy: PolicyDocument): void;
}

/** A menu of the policies of the service that serves this page. A static site has none. */
function ServicePolicy({ policy, onPick }: ServicePolicyProps) {
  const listed = useSignal<readonly ListedPolicy[]>([]);
  useEffect(() => {
    if (!isServed()) return;
    void listPolicies().then((found) => {
      listed.value = found;
    });
  }, []);
  const policies = listed.value;
  if (policies.length === 0) return null;
  const groupOf = (label: string, source: string) => ({
    label,
    options: policies
      .filter((one) => one.source === source)
      .map(({ policyId }) => ({ value: policyId, label: policyId })),
  });
  const groups = [groupOf("Registered", "registered"), groupOf("Presets", "preset")];
  return (
    <Select
      label="Policy of this service"
      value={policies.find(({ document }) => isSame(document, policy))?.policyId ?? ""}
      emptyLabel="custom"
      groups={groups.filter(({ options }) => options.length > 0)}
      onChange={(id) => {
        const picked = policies.find(({ policyId }) => policyId === id);
        if (picked !== undefined) onPick(picked.document);
      }}
    />
  );
}

/** None if nobody is signed in, or the key may not read policies: the page works without. */
async function listPolicies(): Promise<readonly ListedPolicy[]> {
  try {
    const response = await fetch(new URL("../retry-policies", location.href));
    if (!response.ok) return [];
    const { policies } = (await response.json()) as { policies: readonly ListedPolicy[] };
    return policies;
  } catch {
    return [];
  }
}
