/** Curve controls: preset, strategy and its numbers, deadline, Retry-After and outage. */
import { useSignal } from "@preact/signals";
import type { PolicyDocument } from "@redrive/core";
import { policySummary } from "@redrive/simulator/text";
import { Card } from "../../components/card.tsx";
import { DurationField } from "../../components/duration-field.tsx";
import { Field } from "../../components/field.tsx";
import { LazyPart } from "../../components/lazy-part.tsx";
import { Problem } from "../../components/problem.tsx";
import { Segmented } from "../../components/segmented.tsx";
import { LINT_PANEL_HEIGHT } from "../../panels/lint/lint-panel-height.ts";
import { DelayFields } from "../../panels/policy/delay-fields.tsx";
import { loadPolicy } from "../../panels/policy/load-policy.ts";
import { PolicyPicker } from "../../panels/policy/policy-picker.tsx";
import {
  changePolicy,
  changeStrategy,
  outageMs,
  policy,
  policyName,
  resolved,
  retryAfterMs,
  setPolicy,
} from "./curve-store.ts";
import { type StrategyId, strategyLabels, strategyOf } from "./strategy.ts";

const STRATEGIES = (Object.keys(strategyLabels) as StrategyId[]).map((value) => ({
  value,
  label: strategyLabels[value],
}));

const DAY_MS = 86_400_000;

/** Loaded lazily: the panel is below the fold, and its rules are as large as the rest of the view. */
const lint = () => import("./curve-lint.tsx").then(({ CurveLint }) => CurveLint);

/** Few readers type a list. */
const delayList = () =>
  import("./delay-list-field.tsx").then(({ DelayListField }) => DelayListField);

export function CurveControls() {
  const problem = useSignal("");
  const document = policy.value;
  const set = (next: PolicyDocument) => {
    problem.value = changePolicy(next);
  };
  const pick = async (name: string) => {
    if (name !== "") problem.value = setPolicy(await loadPolicy(name), name);
  };
  return (
    <>
      <Card>
        <PolicyPicker value={policyName.value} emptyLabel="custom" onPick={pick} />
        <Segmented
          label="Strategy"
          isWide
          value={strategyOf(document) ?? ("" as StrategyId)}
          options={STRATEGIES}
          onChange={(id) => {
            problem.value = changeStrategy(id);
          }}
        />
        {document.delaysMs === undefined ? (
          <CurveFields onChange={set} />
        ) : (
          <LazyPart height="9rem" load={delayList} props={{ document, onChange: set }} />
        )}
        {resolved.value.jitterType === "PROPORTIONAL" && <RatioField onChange={set} />}
        <Problem message={problem.value} />
        <p class="field-hint">{policySummary(document)}</p>
      </Card>
      <Limits onChange={set} />
      <LazyPart height={LINT_PANEL_HEIGHT} load={lint} />
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
      <DelayFields
        initialDelayMs={initialDelayMs}
        maxDelayMs={maxDelayMs}
        maxAttempts={maxAttempts}
        base={{ min: 0, maxTyped: DAY_MS }}
        max={{ maxTyped: 30 * DAY_MS, isDisabled: backoff === "FIXED" }}
        attempts={{ min: 1, maxTyped: 1000 }}
        onChange={set}
      />
      <Field
        label="Multiplier"
        unit="×"
        value={multiplier}
        min={1}
        max={4}
        maxTyped={10}
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
      label="Jitter, plus or minus"
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
    <Card title="Deadline and outage">
      <DurationField
        label="Deadline"
        value={totalBudgetMs}
        min={100}
        max={DAY_MS}
        maxTyped={365 * DAY_MS}
        hint="for all attempts and waits"
        onInput={(value) => onChange({ ...policy.value, totalBudgetMs: value })}
      />
      <DurationField
        label="Retry-After floor"
        value={retryAfterMs.value}
        min={0}
        max={600_000}
        maxTyped={DAY_MS}
        hint={retryAfterMs.value === 0 ? "no response has a hint" : "every response has this hint"}
        onInput={(value) => {
          retryAfterMs.value = value;
        }}
      />
      <DurationField
        label="Outage"
        value={outageMs.value}
        min={0}
        max={DAY_MS}
        maxTyped={365 * DAY_MS}
        onInput={(value) => {
          outageMs.value = value;
        }}
      />
    </Card>
  );
}
