/** The herd's controls: how many clients, which strategies side by side, the curve, the window. */
import { useSignal } from "@preact/signals";
import { formatInteger, type PolicyDocument, resolvePolicy } from "@redrive/core";
import { MAX_STRATEGIES, strategyNames } from "@redrive/simulator";
import { LINT_ROOM } from "../../panels/lint-room.ts";
import { PolicyPicker } from "../../panels/policy-picker.tsx";
import { Card } from "../../parts/card.tsx";
import { Field } from "../../parts/field.tsx";
import { SpanField } from "../../parts/span-field.tsx";
import { WhenSeen } from "../../parts/when-seen.tsx";
import { nameOf } from "./names.ts";
import {
  addStrategy,
  changeCurve,
  clients,
  curve,
  dropStrategy,
  MAX_CLIENTS,
  MIN_CLIENTS,
  strategies,
  windowMs,
} from "./store.ts";

const lint = () => import("./hurt.tsx").then(({ HerdLint }) => HerdLint);

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
          spell={formatInteger}
          onInput={(value) => {
            clients.value = value;
          }}
        />
        <SpanField
          label="Window"
          value={windowMs.value}
          min={1}
          max={1000}
          most={86_400_000}
          hint="the width in which arrivals are counted: a peak means nothing without it"
          onInput={(value) => {
            windowMs.value = value;
          }}
        />
      </Card>
      <Strategies />
      <Curve />
      <WhenSeen height={`calc(${strategies.value.length} * ${LINT_ROOM})`} load={lint} />
    </>
  );
}

function Strategies() {
  const chosen = strategies.value;
  const isFull = chosen.length >= MAX_STRATEGIES;
  return (
    <Card title="Side by side" aside={`${chosen.length} of ${MAX_STRATEGIES}`}>
      <ul class="compared">
        {chosen.map(({ name }, index) => (
          <li key={`${index}-${name}`}>
            <span>{nameOf(name)}</span>
            <button
              type="button"
              class="button quiet"
              aria-label={`Remove ${nameOf(name)}`}
              disabled={chosen.length === 1}
              onClick={() => dropStrategy(index)}
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
            label="Or a policy"
            value=""
            none="choose one"
            onPick={(name) => name !== "" && void addStrategy(name)}
          />
        </>
      )}
    </Card>
  );
}

function Curve() {
  const problem = useSignal("");
  const document = curve.value;
  const { initialDelayMs = 100, maxDelayMs = 3000, maxAttempts } = resolvePolicy(document);
  const set = (changed: PolicyDocument) => {
    problem.value = changeCurve({ ...document, ...changed });
  };
  return (
    <Card title="Their curve">
      <SpanField
        label="Base"
        value={initialDelayMs}
        min={1}
        max={60_000}
        onInput={(value) => set({ initialDelayMs: value, maxDelayMs: Math.max(value, maxDelayMs) })}
      />
      <SpanField
        label="Max"
        value={maxDelayMs}
        min={1}
        max={3_600_000}
        onInput={(value) =>
          set({ maxDelayMs: value, initialDelayMs: Math.min(value, initialDelayMs) })
        }
      />
      <Field
        label="Attempts"
        unit="calls"
        value={maxAttempts}
        min={2}
        max={20}
        onInput={(value) => set({ maxAttempts: value })}
      />
      {problem.value !== "" && (
        <p class="problem" role="alert">
          {problem.value}
        </p>
      )}
    </Card>
  );
}
