/** Policies page: registered policies and presets, and the document of one with its linter. */
import { isObject, type PolicyDocument } from "@redrive/core";
import { policySummary } from "@redrive/simulator/text";
import { readDraftOf } from "../documents/draft.ts";
import { PageFrame } from "../parts/page-frame.tsx";
import { When } from "../parts/times.tsx";
import { Link } from "../routing/link.tsx";
import { route } from "../routing/route.ts";
import { client, type PolicyView } from "../service/client.ts";
import { may } from "../service/session.ts";
import { usePolled } from "../service/use-polled.ts";
import { ApplyDraft } from "./apply-draft.tsx";
import { ChosenPolicy } from "./chosen-policy.tsx";
import { NewPolicy } from "./new-policy.tsx";

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
