/** System controls: the choice of scenario, and below it the controls of its model. */
import { type ScenarioDocument, scenarios } from "@redrive/simulator";
import { Card } from "../../../components/card.tsx";
import { Field } from "../../../components/field.tsx";
import { Select, type SelectGroup } from "../../../components/select.tsx";
import { LintPanel } from "../../../panels/lint/lint-panel.tsx";
import { merged } from "../document/document.ts";
import { lintContextOf, lintSubjectOf, withFix } from "../document/lint-subject.ts";
import {
  choosePreset,
  current,
  currentCalls,
  edit,
  editCalls,
  seed,
  shippedName,
} from "../state/system-store.ts";
import { ClientControls } from "./client-controls.tsx";
import { ContentionControls } from "./contention-controls.tsx";
import { GuardControls } from "./guard-controls.tsx";
import { PolicyControls } from "./policy-controls.tsx";
import { QueueControls } from "./queue-controls.tsx";
import { ServerControls } from "./server-controls.tsx";

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
