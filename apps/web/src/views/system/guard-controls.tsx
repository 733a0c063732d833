/** Guard controls: the settings of the enabled guards. The switches are next to the chart. */
import { formatPercent } from "@redrive/core";
import type { CallsDocument } from "@redrive/simulator";
import type { ComponentChildren } from "preact";
import { DurationField, Field, Segmented } from "../../components/controls.tsx";
import { Card } from "../../components/frames.tsx";
import {
  type GuardName,
  type GuardOptions,
  guardNames,
  guardOf,
  MAX_LAYERS,
  merged,
  tiersOf,
  withGuard,
  withLayers,
} from "./document.ts";
import { editCalls } from "./system-store.ts";

export function GuardControls({ document }: { readonly document: CallsDocument }) {
  if (guardNames.every((guard) => guardOf(document, guard) === undefined)) return null;
  return (
    <Card title="Guards">
      <Budget document={document} />
      <Breaker document={document} />
      <Concurrency document={document} />
      <Hedge document={document} />
      <Segmented
        label="Guards belong to"
        value={document.guards ?? "PER_CLIENT"}
        options={[
          { value: "PER_CLIENT", label: "each client" },
          { value: "SHARED", label: "all clients" },
        ]}
        onChange={(guards) =>
          editCalls((one) => merged(one, { guards: guards === "SHARED" ? guards : undefined }))
        }
      />
    </Card>
  );
}

interface GroupProps {
  readonly guard: GuardName;
  readonly children: ComponentChildren;
}

function Group({ guard, children }: GroupProps) {
  return (
    <fieldset class="guard">
      <legend>{guardLabels[guard]}</legend>
      {children}
    </fieldset>
  );
}

interface GuardProps {
  readonly document: CallsDocument;
}

function Budget({ document }: GuardProps) {
  const options = guardOf(document, "retryBudget");
  if (options === undefined) return null;
  const byRatio = options.kind === "TOKENS" || options.kind === "GRPC" ? undefined : options;
  return (
    <Group guard="retryBudget">
      {byRatio !== undefined ? (
        <Field
          label="Retries, share of calls"
          unit="%"
          value={Math.round((byRatio.ratio ?? 0.1) * 1000) / 10}
          min={0}
          max={100}
          format={(value) => formatPercent(value / 100)}
          onInput={(value) => setGuard("retryBudget", { ...byRatio, ratio: value / 100 })}
        />
      ) : (
        <p class="field-hint">A token bucket: edit its numbers in the JSON below.</p>
      )}
    </Group>
  );
}

function Breaker({ document }: GuardProps) {
  const options = guardOf(document, "breaker");
  if (options === undefined) return null;
  return (
    <Group guard="breaker">
      <Field
        label="Opens at failures of"
        unit="%"
        value={Math.round((options.failureRate ?? 0.5) * 100)}
        min={1}
        max={100}
        onInput={(value) => setGuard("breaker", { ...options, failureRate: value / 100 })}
      />
      <DurationField
        label="Stays open for"
        value={options.openMs ?? 5000}
        min={1}
        max={60_000}
        onInput={(value) =>
          setGuard("breaker", {
            ...options,
            openMs: Math.round(value),
            ...(options.maxOpenMs !== undefined && {
              maxOpenMs: Math.max(options.maxOpenMs, Math.round(value)),
            }),
          })
        }
      />
    </Group>
  );
}

const ALGORITHMS = [
  { value: "GRADIENT", label: "gradient" },
  { value: "VEGAS", label: "Vegas" },
  { value: "AIMD", label: "AIMD" },
  { value: "FIXED", label: "fixed" },
] as const;

function Concurrency({ document }: GuardProps) {
  const options = guardOf(document, "concurrency");
  if (options === undefined) return null;
  return (
    <Group guard="concurrency">
      <Segmented
        label="Limit found by"
        value={options.algorithm ?? "AIMD"}
        options={ALGORITHMS}
        onChange={(algorithm) => setGuard("concurrency", { ...options, algorithm })}
      />
      <Field
        label="Maximum in flight"
        unit="calls"
        value={options.max ?? 64}
        min={1}
        max={10_000}
        scale="log"
        onInput={(value) => {
          const max = Math.round(value);
          const { maxRetries } = options;
          const bound = maxRetries === undefined ? {} : { maxRetries: Math.min(maxRetries, max) };
          setGuard("concurrency", { ...options, max, ...bound });
        }}
      />
    </Group>
  );
}

function Hedge({ document }: GuardProps) {
  const options = guardOf(document, "hedge");
  if (options === undefined) return null;
  const { after = "p95" } = options;
  return (
    <Group guard="hedge">
      <Segmented
        label="Second attempt after"
        value={typeof after === "number" ? "fixed" : after}
        options={[
          { value: "p50", label: "p50" },
          { value: "p90", label: "p90" },
          { value: "p95", label: "p95" },
          { value: "p99", label: "p99" },
          { value: "fixed", label: "fixed" },
        ]}
        onChange={(value) =>
          setGuard("hedge", {
            ...options,
            after: value === "fixed" ? 100 : (value as `p${number}`),
          })
        }
      />
      {typeof after === "number" && (
        <DurationField
          label="Delay"
          value={after}
          min={1}
          max={60_000}
          onInput={(value) => setGuard("hedge", { ...options, after: Math.round(value) })}
        />
      )}
    </Group>
  );
}

// Guard switches: turns each guard on or off next to the chart, and sets how many layers retry.

/** The options of a guard when it is switched on: defaults, then the last ones. */
const remembered: { [G in GuardName]: GuardOptions<G> } = {
  retryBudget: { ratio: 0.1, minPerSecond: 0 },
  breaker: { failureRate: 0.5, openMs: 5000 },
  concurrency: { algorithm: "GRADIENT", max: 64 },
  hedge: { after: "p95" },
};

const guardLabels: Readonly<Record<GuardName, string>> = {
  retryBudget: "Retry budget",
  breaker: "Circuit breaker",
  concurrency: "Adaptive concurrency",
  hedge: "Hedge",
};

/** Changes the options of a guard; undefined switches it off. */
function setGuard<G extends GuardName>(guard: G, options: GuardOptions<G> | undefined): void {
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
