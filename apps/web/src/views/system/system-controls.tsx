/** System controls: the choice of scenario, and below it the controls of its model. */
import { formatInteger, type PolicyDocument, resolvePolicy } from "@redrive/core";
import {
  type CallsDocument,
  type ClosedClients,
  type ContentionDocument,
  type OpenClients,
  type QueueDocument,
  type ScenarioDocument,
  scenarios,
} from "@redrive/simulator";
import { policySummary } from "@redrive/simulator/text";
import {
  DurationField,
  Field,
  Segmented,
  Select,
  type SelectGroup,
  type SliderRange,
  Toggle,
} from "../../components/controls.tsx";
import { Card } from "../../components/frames.tsx";
import { LintPanel } from "../../components/lint-panel.tsx";
import {
  lintContextOf,
  lintSubjectOf,
  merged,
  middleOf,
  ownPolicyOf,
  serverOf,
  withFix,
  withMiddle,
  withServer,
} from "./document.ts";
import { GuardControls } from "./guard-controls.tsx";
import { PolicyControls } from "./policy-controls.tsx";
import {
  choosePreset,
  current,
  currentCalls,
  edit,
  editCalls,
  seed,
  shippedName,
} from "./system-store.ts";

export function SystemControls() {
  return (
    <>
      <ScenarioControls />
      <ModelControls />
    </>
  );
}

/** The menu groups of the scenarios. Scenarios that fit no other group are common faults. */
const GROUPS: readonly { readonly label: string; has(name: string): boolean }[] = [
  { label: "Failover and collapse", has: (name) => /^(?:metastable|failover|open-)/u.test(name) },
  { label: "Common faults", has: (name) => isCommonFault(name) },
  { label: "Adding mitigations one by one", has: (name) => name.startsWith("ladder-") },
  { label: "Other models", has: (name) => (scenarios[name]?.world ?? "CALLS") !== "CALLS" },
];

function isCommonFault(name: string): boolean {
  return GROUPS.every(({ label, has }) => label === "Common faults" || !has(name));
}

const PRESETS: readonly SelectGroup[] = GROUPS.map(({ label, has }) => ({
  label,
  options: Object.keys(scenarios)
    .filter(has)
    .map((name) => ({ value: name, label: name })),
}));

function ScenarioControls() {
  const { name = "scenario", horizonMs = 60_000 } = current.value;
  const changedName = Object.hasOwn(scenarios, name) ? `${name}, changed` : name;
  return (
    <Card title="Scenario">
      <Select
        label="Preset"
        value={shippedName.value}
        groups={PRESETS}
        {...(shippedName.value === "" && { emptyLabel: changedName })}
        onChange={choosePreset}
      />
      <Field
        label="Run length"
        unit="s"
        value={horizonMs / 1000}
        min={1}
        max={3600}
        scale="log"
        hint={hintOf(current.value)}
        onInput={(seconds) =>
          edit((document: ScenarioDocument) =>
            merged(document, { horizonMs: Math.round(seconds * 1000) }),
          )
        }
      />
      <SeedField />
    </Card>
  );
}

function hintOf(document: ScenarioDocument): string {
  const isFixed =
    "clients" in document && document.clients.kind === "CLOSED" && document.clients.jobs;
  return isFixed ? "Clients with a fixed number of calls run until the last one ends." : "";
}

/** A seed is a number, or a string from a link. */
function SeedField() {
  return (
    <div class="exact">
      <label for="system-seed">Seed</label>
      <span>
        <input
          id="system-seed"
          type="text"
          value={String(seed.value)}
          onChange={({ currentTarget }) => {
            const text = currentTarget.value.trim();
            if (/^[\w.-]{1,64}$/u.test(text)) {
              seed.value = /^\d{1,15}$/u.test(text) ? Number(text) : text;
            }
            currentTarget.value = String(seed.value);
          }}
        />
      </span>
    </div>
  );
}

function ModelControls() {
  const document = current.value;
  const calls = currentCalls.value;
  if (document.world === "QUEUE") return <QueueControls document={document} />;
  if (document.world === "CONTENTION") return <ContentionControls document={document} />;
  if (calls === undefined) return null;
  return (
    <>
      <GuardControls document={calls} />
      <ServerControls document={calls} />
      <ClientControls document={calls} />
      <PolicyControls document={calls} />
      <LintPanel
        subject={lintSubjectOf(calls)}
        context={lintContextOf(calls)}
        onFix={(fixed) => editCalls((document) => withFix(document, fixed))}
      />
    </>
  );
}

// Client controls: open traffic, or closed clients that wait for each call before the next.

type Clients = OpenClients | ClosedClients;

/** The initial values of each kind. */
const OPEN: OpenClients = { kind: "OPEN", count: 20, ratePerSecond: 500 };
const CLOSED: ClosedClients = { kind: "CLOSED", count: 1000, think: 1000 };

/** The last values of each kind, restored when the reader switches back. */
const before: { OPEN: OpenClients; CLOSED: ClosedClients } = { OPEN, CLOSED };

function ClientControls({ document }: { readonly document: CallsDocument }) {
  const { clients } = document;
  const set = (next: Clients) => editCalls((calls) => ({ ...calls, clients: next }));
  const choose = (kind: Clients["kind"]) => {
    if (clients.kind === "OPEN") before.OPEN = clients;
    else before.CLOSED = clients;
    set(before[kind]);
  };
  return (
    <Card title="Clients">
      <Segmented
        label="Traffic"
        isLabelHidden
        value={clients.kind}
        options={[
          { value: "OPEN", label: "Open (Poisson)" },
          { value: "CLOSED", label: "Closed" },
        ]}
        onChange={choose}
      />
      {clients.kind === "OPEN" ? (
        <Open clients={clients} set={set} />
      ) : (
        <Closed clients={clients} set={set} />
      )}
    </Card>
  );
}

interface OpenProps {
  readonly clients: OpenClients;
  set(clients: Clients): void;
}

function Open({ clients, set }: OpenProps) {
  return (
    <>
      <Field
        label="Offered load"
        unit="calls/s"
        value={clients.ratePerSecond}
        min={1}
        max={10_000}
        scale="log"
        onInput={(ratePerSecond) => set({ ...clients, ratePerSecond })}
      />
      <Field
        label="Clients"
        unit="clients"
        value={clients.count ?? 1}
        min={1}
        max={10_000}
        scale="log"
        hint="They share the load. Each can have its own guards."
        onInput={(count) => set({ ...clients, count: Math.round(count) })}
      />
    </>
  );
}

interface ClosedProps {
  readonly clients: ClosedClients;
  set(clients: Clients): void;
}

function Closed({ clients, set }: ClosedProps) {
  const change = (part: Parameters<typeof merged<ClosedClients>>[1]) => set(merged(clients, part));
  return (
    <>
      <Field
        label="Clients"
        unit="clients"
        value={clients.count}
        min={1}
        max={1_000_000}
        scale="log"
        onInput={(count) => change({ count: Math.round(count) })}
      />
      <Toggle
        checked={clients.jobs === 1}
        onChange={(isOn) => change({ jobs: isOn ? 1 : undefined })}
      >
        One call each
      </Toggle>
      {clients.jobs !== 1 && (
        <DurationField
          label="Pause between calls"
          value={middleOf(clients.think)}
          min={0}
          max={60_000}
          onInput={(ms) => change({ think: withMiddle(clients.think, ms) })}
        />
      )}
      <DurationField
        label="First calls spread over"
        value={clients.startSpreadMs ?? 0}
        min={0}
        max={60_000}
        onInput={(ms) => change({ startSpreadMs: ms === 0 ? undefined : Math.round(ms) })}
      />
    </>
  );
}

// Server controls: capacity, queue and latency of the innermost server.

const CAPACITY_PER_SECOND = 1000;
const QUEUE_MS = 500;

function ServerControls({ document }: { readonly document: CallsDocument }) {
  const server = serverOf(document);
  const { capacityPerSecond, queueMs } = server;
  const set = (change: Parameters<typeof withServer>[1]) =>
    editCalls((one) => withServer(one, change));
  return (
    <Card title="Server">
      <Toggle
        checked={capacityPerSecond !== undefined}
        onChange={(isOn) => set({ capacityPerSecond: isOn ? CAPACITY_PER_SECOND : undefined })}
      >
        Limited capacity
      </Toggle>
      {capacityPerSecond !== undefined && (
        <Field
          label="Capacity"
          unit="calls/s"
          value={capacityPerSecond}
          min={1}
          max={100_000}
          scale="log"
          onInput={(value) => set({ capacityPerSecond: value })}
        />
      )}
      {capacityPerSecond !== undefined && (
        <Toggle
          checked={queueMs !== undefined}
          onChange={(isOn) => set({ queueMs: isOn ? QUEUE_MS : undefined })}
        >
          Bounded queue
        </Toggle>
      )}
      {capacityPerSecond !== undefined && queueMs !== undefined && (
        <DurationField
          label="Queue length"
          value={queueMs}
          min={0}
          max={60_000}
          hint={`${formatInteger((queueMs / 1000) * capacityPerSecond)} calls; more are rejected immediately`}
          onInput={(value) => set({ queueMs: Math.round(value) })}
        />
      )}
      <DurationField
        label="Latency"
        value={middleOf(server.latency)}
        min={0}
        max={60_000}
        hint={latencyHint(server.latency)}
        onInput={(value) => set({ latency: withMiddle(server.latency, value) })}
      />
      {capacityPerSecond !== undefined && (
        <Toggle
          checked={server.dropsExpired ?? false}
          onChange={(isOn) => set({ dropsExpired: isOn ? true : undefined })}
        >
          Drops calls whose client has given up
        </Toggle>
      )}
    </Card>
  );
}

function latencyHint(latency: ReturnType<typeof serverOf>["latency"]): string {
  if (latency === undefined || typeof latency === "number" || latency.kind === "FIXED") {
    return "In addition to queueing and service time.";
  }
  const word = latency.kind === "LOGNORMAL" ? "median" : "mean";
  return `The ${word} of a ${latency.kind.toLowerCase()} distribution.`;
}

/** The fields of a scenario in which clients write the same row. */
function ContentionControls({ document }: { readonly document: ContentionDocument }) {
  const policy = ownPolicyOf(document);
  const { maxAttempts, initialDelayMs = 0, maxDelayMs = 0 } = resolvePolicy(policy);
  const set = (change: Parameters<typeof merged<PolicyDocument>>[1]) =>
    edit((one: ContentionDocument) => ({ ...one, policy: merged(ownPolicyOf(one), change) }));
  return (
    <Card title="Writers of the same row">
      <Field
        label="Clients"
        unit="clients"
        value={document.clientCount ?? 100}
        min={1}
        max={10_000}
        scale="log"
        onInput={(count) =>
          edit((one: ContentionDocument) => ({ ...one, clientCount: Math.round(count) }))
        }
      />
      <Field
        label="Attempts"
        unit="calls"
        value={maxAttempts}
        min={1}
        max={1000}
        scale="log"
        onInput={(value) => set({ maxAttempts: Math.round(value) })}
      />
      <DurationField
        label="Base"
        value={initialDelayMs}
        min={0}
        max={maxDelayMs}
        onInput={(value) => set({ initialDelayMs: Math.round(value) })}
      />
      <p class="field-hint">{policySummary(policy)}</p>
    </Card>
  );
}

// Queue controls: the fields of a scenario with a message queue and workers.

type NumberOf<T> = {
  [K in keyof T]-?: NonNullable<T[K]> extends number ? K : never;
}[keyof T];

interface QueueField extends SliderRange {
  readonly field: NumberOf<QueueDocument>;
  readonly label: string;
  readonly unit: string;
  readonly defaultValue: number;
  /** Shown as a percentage. */
  readonly isShare?: boolean;
}

const SHARE = { unit: "%", min: 0, max: 100, isShare: true, defaultValue: 0 } as const;

const QUEUE_FIELDS: readonly QueueField[] = [
  {
    field: "ratePerSecond",
    label: "Messages",
    unit: "per second",
    min: 1,
    max: 10_000,
    scale: "log",
    defaultValue: 10,
  },
  { field: "workers", label: "Workers", unit: "workers", min: 1, max: 1000, defaultValue: 4 },
  {
    field: "visibilityMs",
    label: "Redelivered after",
    unit: "ms",
    min: 1,
    max: 600_000,
    scale: "log",
    defaultValue: 30_000,
  },
  {
    field: "maxReceives",
    label: "Dead-lettered after",
    unit: "receives",
    min: 1,
    max: 100,
    defaultValue: 5,
  },
  { field: "poisonShare", label: "Poison messages", ...SHARE },
  { field: "failureRate", label: "Random failures", ...SHARE },
  {
    field: "crashesPerSecond",
    label: "Worker crashes",
    unit: "per second",
    min: 0,
    max: 10,
    step: 0.1,
    defaultValue: 0,
  },
  {
    field: "commitMs",
    label: "Commit interval",
    unit: "ms",
    min: 0,
    max: 60_000,
    scale: "log",
    defaultValue: 0,
  },
];

function QueueControls({ document }: { readonly document: QueueDocument }) {
  return (
    <Card title="Queue and workers">
      {QUEUE_FIELDS.map(({ field, isShare = false, defaultValue, ...rest }) => {
        const value = document[field] ?? defaultValue;
        return (
          <Field
            key={field}
            {...rest}
            value={isShare ? Math.round(value * 1000) / 10 : value}
            onInput={(next) =>
              edit((queue: QueueDocument) =>
                merged(queue, { [field]: isShare ? next / 100 : next }),
              )
            }
          />
        );
      })}
      <DurationField
        label="Work per message"
        value={middleOf(document.work ?? 100)}
        min={1}
        max={60_000}
        onInput={(ms) =>
          edit((queue: QueueDocument) => ({
            ...queue,
            work: withMiddle(queue.work ?? { kind: "EXPONENTIAL", meanMs: 100 }, ms),
          }))
        }
      />
    </Card>
  );
}
