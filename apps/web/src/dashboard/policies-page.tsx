/** Policies page: registered policies and presets, and the document of one with its linter. */
import { useSignal } from "@preact/signals";
import { isObject, type PolicyDocument } from "@redrive/core";
import { policySummary } from "@redrive/simulator/text";
import { useEffect } from "preact/hooks";
import { Select } from "../components/controls.tsx";
import { Card, Notice } from "../components/frames.tsx";
import { client, may, type PolicyView, problemOf } from "./parts/client.ts";
import { DocumentEditor } from "./parts/document-editor.tsx";
import { type Document, policyKind, readDraftOf } from "./parts/document-kinds.ts";
import { goTo, Link, route } from "./parts/link.tsx";
import { usePolled } from "./parts/live.ts";
import { PageFrame } from "./parts/page-frame.tsx";
import { curveAddress, SimulatorLink } from "./parts/simulator-links.tsx";
import { When } from "./parts/times.tsx";

const EVERY_MS = 15_000;

export function PoliciesPage() {
  const { query } = route.value;
  const { data, problem, reload } = usePolled("policies", () => client.listPolicies(), {
    everyMs: EVERY_MS,
  });
  const { id = "", version = "" } = query;
  const draft = readDraftOf(query);
  const isNew = query["new"] === "yes";
  return (
    <PageFrame
      title="Policies"
      problem={problem}
      isLoaded={data !== undefined}
      actions={
        may("admin") &&
        !isNew && (
          <Link page="policies" query={{ new: "yes" }} class="button">
            New policy
          </Link>
        )
      }
    >
      {draft !== undefined && id === "" && !isNew && (
        <ApplyDraft draft={draft} policies={data?.policies ?? []} />
      )}
      {isNew && <NewPolicy draft={draft} onSaved={reload} />}
      {id !== "" && (
        <ChosenPolicy
          key={`${id} ${version}`}
          policyId={id}
          version={version}
          draft={draft}
          onSaved={reload}
        />
      )}
      <PolicyTable policies={data?.policies ?? []} shown={id} />
    </PageFrame>
  );
}

interface PolicyTableProps {
  readonly policies: readonly PolicyView[];
  readonly shown: string;
}

/** Registered policies first, because people have made them. */
function PolicyTable({ policies, shown }: PolicyTableProps) {
  const sorted = policies.toSorted(
    (one, other) => Number(one.source === "preset") - Number(other.source === "preset"),
  );
  return (
    <div class="table-wrap">
      <table class="table rows">
        <caption class="visually-hidden">Policies</caption>
        <thead>
          <tr>
            <th scope="col">Policy</th>
            <th scope="col">What it does</th>
            <th scope="col">Source</th>
            <th scope="col" class="number">
              Version
            </th>
            <th scope="col" class="number">
              Created
            </th>
            <th scope="col">
              <span class="visually-hidden">Its tasks</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {sorted.map((policy) => (
            <PolicyRow key={policy.policyId} policy={policy} isShown={policy.policyId === shown} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface PolicyRowProps {
  readonly policy: PolicyView;
  readonly isShown: boolean;
}

function PolicyRow({ policy, isShown }: PolicyRowProps) {
  const { policyId, source, version, createdAt, document } = policy;
  return (
    <tr class={isShown ? "selected" : ""}>
      <th scope="row" data-label="Policy" class="name">
        <Link page="policies" query={{ id: policyId }}>
          {policyId}
        </Link>
      </th>
      <td data-label="What it does" class="wrap">
        {summaryOf(document)}
      </td>
      <td data-label="Source">{source}</td>
      <td data-label="Version" class="number">
        {version === 0 ? "not used yet" : version}
      </td>
      <td data-label="Created" class="number">
        {createdAt === null ? <span class="faint">built in</span> : <When at={createdAt} />}
      </td>
      <td data-label="Tasks">
        <Link page="tasks" query={{ policy: policyId }}>
          its tasks
        </Link>
      </td>
    </tr>
  );
}

function summaryOf(document: unknown): string {
  if (!isObject(document)) return "unknown";
  try {
    return policySummary(document as PolicyDocument);
  } catch {
    return "This version of the page cannot read it.";
  }
}

// Chosen policy: one version of a policy. A registered one can be edited, which makes a new
// version.

interface ChosenPolicyProps {
  readonly policyId: string;
  /** Empty: the newest. */
  readonly version: string;
  readonly draft: Document | undefined;
  onSaved(): void;
}

function ChosenPolicy({ policyId, version, draft, onSaved }: ChosenPolicyProps) {
  const policy = useSignal<PolicyView | undefined>(undefined);
  const problem = useSignal("");
  const load = async () => {
    const options = /^[1-9]\d*$/u.test(version) ? { version: Number(version) } : {};
    try {
      policy.value = await client.getPolicy(policyId, options);
    } catch (error) {
      problem.value = problemOf(error);
    }
  };
  useEffect(() => void load(), []);
  if (problem.value !== "") return <Notice tone="bad">{problem.value}</Notice>;
  if (policy.value === undefined) return <p class="loading">Loading…</p>;
  const { document, unreadable, version: shown, source } = policy.value;
  const stored = document as Document;
  const isEditable = may("admin") && source === "registered" && version === "";
  const copy = JSON.stringify({ ...stored, policyId: `${policyId}-copy` });
  return (
    <section class="chosen" aria-labelledby="chosen-policy">
      <div class="list-head">
        <h2 id="chosen-policy">{policyId}</h2>
        <div class="actions">
          {unreadable === undefined && (
            <SimulatorLink address={curveAddress(stored as PolicyDocument)} />
          )}
          {may("admin") && source !== "inline" && (
            <Link page="policies" query={{ new: "yes", draft: copy }} class="button">
              Copy as a new policy
            </Link>
          )}
        </div>
      </div>
      {unreadable !== undefined && (
        <Notice tone="bad">This version of Redrive cannot read it: {unreadable}</Notice>
      )}
      <DocumentEditor
        title="Document of the policy"
        hint={`${source}, ${shown === 0 ? "not used yet" : `version ${shown}`}`}
        kind={policyKind}
        stored={stored}
        draft={isEditable ? draft && { policyId, ...draft } : undefined}
        isEditable={isEditable}
        effect="New tasks use it as a new version; existing tasks keep theirs."
        save={(edited) => client.replacePolicy(policyId, edited as PolicyDocument)}
        onSaved={() => {
          if (draft !== undefined) goTo("policies", { id: policyId });
          void load();
          onSaved();
        }}
      />
      {!isEditable && (
        <p class="faint">
          {source === "preset"
            ? "A preset cannot be changed. Copy it as a new policy."
            : "Only the newest version of a registered policy can be changed."}
        </p>
      )}
    </section>
  );
}

const EXAMPLE: Document = {
  policyId: "my-policy",
  description: "Why these numbers, and for which calls.",
  maxAttempts: 8,
  initialDelayMs: 1000,
  maxDelayMs: 300_000,
  totalBudgetMs: 3_600_000,
};

interface NewPolicyProps {
  readonly draft: Document | undefined;
  onSaved(): void;
}

/** Registers a policy under a new id. */
function NewPolicy({ draft, onSaved }: NewPolicyProps) {
  return (
    <section class="chosen" aria-labelledby="new-policy">
      <h2 id="new-policy">New policy</h2>
      <DocumentEditor
        title="Document of the policy"
        hint="policyId is its name; the other fields have defaults"
        kind={policyKind}
        stored={{}}
        draft={draft === undefined ? EXAMPLE : { policyId: "my-policy", ...draft }}
        isEditable
        effect="Tasks can name it from now on."
        save={async (document) => {
          const { policyId } = await client.registerPolicy(document as PolicyDocument);
          goTo("policies", { id: policyId });
        }}
        onSaved={onSaved}
      />
    </section>
  );
}

// Apply draft: asks where a document from the simulator is applied. The editor then shows the
// difference.

interface ApplyDraftProps {
  readonly draft: Document;
  readonly policies: readonly PolicyView[];
}

/** A document with guards is for a destination; a policy can be applied to both. */
const GUARDS = ["policy", "breaker", "retryBudget", "concurrency", "rate", "retryAfterGate"];

const MAX_NAMES = 250;

function ApplyDraft({ draft, policies }: ApplyDraftProps) {
  const names = useSignal<readonly string[]>([]);
  useEffect(() => {
    const load = async () => {
      const { destinations } = await client.listDestinations({ limit: MAX_NAMES });
      names.value = destinations.map(({ name }) => name);
    };
    // Without names, policies can still be chosen.
    load().catch(() => {});
  }, []);
  const isPolicy = !GUARDS.some((name) => name in draft);
  const registered = policies.filter(({ source }) => source === "registered");
  const apply = (chosen: string) => {
    const kind = chosen.slice(0, 1);
    const name = chosen.slice(1);
    const text = JSON.stringify(draft);
    if (kind === "p") goTo("policies", { id: name, draft: text });
    else goTo("destination", { name, draft: isPolicy ? JSON.stringify({ policy: draft }) : text });
  };
  const options = (kind: string, list: readonly string[]) =>
    list.map((name) => ({ value: `${kind}${name}`, label: name }));
  return (
    <Card title="Apply what the simulator shows" class="wizard">
      <div class="form">
        <p>
          Choose where to apply it. Nothing changes yet: the next page shows the difference, and you
          save it there.
        </p>
        <div class="filters">
          <Select
            label="Apply to"
            value=""
            emptyLabel="choose…"
            groups={[
              ...(isPolicy
                ? [
                    {
                      label: "Policies",
                      options: options(
                        "p",
                        registered.map(({ policyId }) => policyId),
                      ),
                    },
                  ]
                : []),
              { label: "Destinations", options: options("d", names.value) },
            ]}
            onChange={apply}
          />
          {isPolicy && (
            <Link
              page="policies"
              query={{ new: "yes", draft: JSON.stringify(draft) }}
              class="button"
            >
              As a new policy
            </Link>
          )}
        </div>
      </div>
    </Card>
  );
}
