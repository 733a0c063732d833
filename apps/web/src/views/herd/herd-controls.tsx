/** Herd controls: the clients, the window, the compared strategies and their shared delays. */
import { useSignal } from "@preact/signals";
import { formatInteger, type PolicyDocument, resolvePolicy } from "@redrive/core";
import { MAX_STRATEGIES, strategyNames } from "@redrive/simulator";
import { Card } from "../../components/card.tsx";
import { DurationField } from "../../components/duration-field.tsx";
import { Field } from "../../components/field.tsx";
import { LazyPart } from "../../components/lazy-part.tsx";
import { Problem } from "../../components/problem.tsx";
import { LINT_PANEL_HEIGHT } from "../../panels/lint/lint-panel-height.ts";
import { DelayFields } from "../../panels/policy/delay-fields.tsx";
import { PolicyPicker } from "../../panels/policy/policy-picker.tsx";
import {
  addStrategy,
  changeCurve,
  clients,
  curve,
  MAX_CLIENTS,
  MIN_CLIENTS,
  removeStrategy,
  strategies,
  windowMs,
} from "./herd-store.ts";
import { strategyLabel } from "./strategy-labels.ts";

const lint = () => import("./herd-lint.tsx").then(({ HerdLint }) => HerdLint);

export function HerdControls() {
  return (
    <>
      <Card>
        <Field
          label="Clients"
          unit="clients"
          value={clients.value}
          min={MIN_CLIENTS}
          max={MAX_CLIENTS}
          scale="log"
          format={formatInteger}
          onInput={(value) => {
            clients.value = value;
          }}
        />
        <DurationField
          label="Window"
          value={windowMs.value}
          min={1}
          max={1000}
          maxTyped={86_400_000}
          hint="arrivals are counted per window; the peak depends on its width"
          onInput={(value) => {
            windowMs.value = value;
          }}
        />
      </Card>
      <Strategies />
      <SharedDelays />
      <LazyPart height={`calc(${strategies.value.length} * ${LINT_PANEL_HEIGHT})`} load={lint} />
    </>
  );
}

function Strategies() {
  const chosen = strategies.value;
  const isFull = chosen.length >= MAX_STRATEGIES;
  return (
    <Card title="Compared strategies" aside={`${chosen.length} of ${MAX_STRATEGIES}`}>
      <ul class="compared">
        {chosen.map(({ name }, index) => (
          <li key={`${index}-${name}`}>
            <span>{strategyLabel(name)}</span>
            <button
              type="button"
              class="button quiet"
              aria-label={`Remove ${strategyLabel(name)}`}
              disabled={chosen.length === 1}
              onClick={() => removeStrategy(index)}
            >
              ×
            </button>
          </li>
        ))}
      </ul>
      {isFull ? (
        <p class="field-hint">Remove one to add another.</p>
      ) : (
        <>
          <div class="add-row">
            {strategyNames
              .filter((name) => !chosen.some((one) => one.name === name))
              .map((name) => (
                <button
                  key={name}
                  type="button"
                  class="button"
                  onClick={() => void addStrategy(name)}
                >
                  + {name}
                </button>
              ))}
          </div>
          <PolicyPicker
            label="Or add a policy"
            value=""
            emptyLabel="choose one"
            onPick={(name) => name !== "" && void addStrategy(name)}
          />
        </>
      )}
    </Card>
  );
}

function SharedDelays() {
  const problem = useSignal("");
  const document = curve.value;
  const { initialDelayMs = 100, maxDelayMs = 3000, maxAttempts } = resolvePolicy(document);
  const set = (changed: PolicyDocument) => {
    problem.value = changeCurve({ ...document, ...changed });
  };
  return (
    <Card title="Shared delays">
      <DelayFields
        initialDelayMs={initialDelayMs}
        maxDelayMs={maxDelayMs}
        maxAttempts={maxAttempts}
        base={{ min: 1 }}
        attempts={{ min: 2 }}
        onChange={set}
      />
      <Problem message={problem.value} />
    </Card>
  );
}
