/** The curve's controls: a preset, a strategy and its numbers, the deadline, hints and the outage. */
import { useSignal } from "@preact/signals";
import type { PolicyDocument } from "@redrive/core";
import { policySummary } from "@redrive/simulator/text";
import { LINT_ROOM } from "../../panels/lint-room.ts";
import { namedPolicy } from "../../panels/named-policy.ts";
import { PolicyPicker } from "../../panels/policy-picker.tsx";
import { Card } from "../../parts/card.tsx";
import { Field } from "../../parts/field.tsx";
import { Segmented } from "../../parts/segmented.tsx";
import { SpanField } from "../../parts/span-field.tsx";
import { WhenSeen } from "../../parts/when-seen.tsx";
import { ListField } from "./list-field.tsx";
import {
  change,
  outageMs,
  policy,
  policyName,
  resolved,
  retryAfterMs,
  setPolicy,
} from "./store.ts";
import { type StrategyId, strategyLabels, strategyOf, withStrategy } from "./strategy.ts";

const STRATEGIES = (Object.keys(strategyLabels) as StrategyId[]).map((value) => ({
  value,
  label: strategyLabels[value],
}));

const DAY_MS = 86_400_000;

/** Its rules weigh as much as the rest of the view, and stand below it. */
const lint = () => import("./hurt.tsx").then(({ CurveLint }) => CurveLint);

export function CurveControls() {
  const problem = useSignal("");
  const document = policy.value;
  const set = (next: PolicyDocument) => {
    problem.value = change(next);
  };
  const pick = async (name: string) => {
    if (name !== "") problem.value = setPolicy(await namedPolicy(name), name);
  };
  return (
    <>
      <Card>
        <PolicyPicker value={policyName.value} none="your own curve" onPick={pick} />
        <Segmented
          label="Strategy"
          isWide
          value={strategyOf(document) ?? ("" as StrategyId)}
          options={STRATEGIES}
          onChange={(id) => set(withStrategy(document, id))}
        />
        {document.delaysMs === undefined ? (
          <CurveFields onChange={set} />
        ) : (
          <ListField document={document} onChange={set} />
        )}
        {resolved.value.jitterType === "PROPORTIONAL" && <RatioField onChange={set} />}
        {problem.value !== "" && (
          <p class="problem" role="alert">
            {problem.value}
          </p>
        )}
        <p class="field-hint">{policySummary(document)}</p>
      </Card>
      <Limits onChange={set} />
      <WhenSeen height={LINT_ROOM} load={lint} />
    </>
  );
}

interface ChangeProps {
  onChange(next: PolicyDocument): void;
}

function CurveFields({ onChange }: ChangeProps) {
  const document = policy.value;
  const {
    initialDelayMs = 0,
    maxDelayMs = 0,
    multiplier = 2,
    maxAttempts,
    backoff,
  } = resolved.value;
  const set = (changed: PolicyDocument) => onChange({ ...document, ...changed });
  return (
    <>
      <SpanField
        label="Base"
        value={initialDelayMs}
        min={0}
        max={60_000}
        most={DAY_MS}
        onInput={(value) => set({ initialDelayMs: value, maxDelayMs: Math.max(value, maxDelayMs) })}
      />
      <SpanField
        label="Max"
        value={maxDelayMs}
        min={1}
        max={3_600_000}
        most={30 * DAY_MS}
        isDisabled={backoff === "FIXED"}
        onInput={(value) =>
          set({ maxDelayMs: value, initialDelayMs: Math.min(value, initialDelayMs) })
        }
      />
      <Field
        label="Attempts"
        unit="calls"
        value={maxAttempts}
        min={1}
        max={20}
        most={1000}
        onInput={(value) => set({ maxAttempts: value })}
      />
      <Field
        label="Multiplier"
        unit="×"
        value={multiplier}
        min={1}
        max={4}
        most={10}
        step={0.1}
        isDisabled={backoff !== "EXPONENTIAL" || resolved.value.jitterType === "DECORRELATED"}
        onInput={(value) => set({ multiplier: value })}
      />
    </>
  );
}

function RatioField({ onChange }: ChangeProps) {
  return (
    <Field
      label="Jitter either way"
      unit="%"
      value={Math.round(resolved.value.jitterRatio * 100)}
      min={0}
      max={100}
      onInput={(value) => onChange({ ...policy.value, jitterRatio: value / 100 })}
    />
  );
}

function Limits({ onChange }: ChangeProps) {
  const { totalBudgetMs } = resolved.value;
  return (
    <Card title="Limits and trouble">
      <SpanField
        label="Deadline"
        value={totalBudgetMs}
        min={100}
        max={DAY_MS}
        most={365 * DAY_MS}
        hint="for all attempts and waits together"
        onInput={(value) => onChange({ ...policy.value, totalBudgetMs: value })}
      />
      <SpanField
        label="Retry-After floor"
        value={retryAfterMs.value}
        min={0}
        max={600_000}
        most={DAY_MS}
        hint={retryAfterMs.value === 0 ? "no answer carries a hint" : "every answer asks for it"}
        onInput={(value) => {
          retryAfterMs.value = value;
        }}
      />
      <SpanField
        label="Outage"
        value={outageMs.value}
        min={0}
        max={DAY_MS}
        most={365 * DAY_MS}
        onInput={(value) => {
          outageMs.value = value;
        }}
      />
    </Card>
  );
}
