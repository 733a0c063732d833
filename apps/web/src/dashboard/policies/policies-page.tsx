/** Policies page: registered policies and presets, with their documents. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Card } from "../../components/card.tsx";
import { Notice } from "../../components/notice.tsx";
import { PageFrame } from "../parts/page-frame.tsx";
import { When } from "../parts/times.tsx";
import { Link } from "../routing/link.tsx";
import { route } from "../routing/route.ts";
import { client, type PolicyView, problemOf } from "../service/client.ts";
import { usePolled } from "../service/use-polled.ts";
import { attemptsOf } from "../tasks/max-attempts.ts";

const EVERY_MS = 15_000;

export function PoliciesPage() {
  const { query } = route.value;
  const { data, problem } = usePolled("policies", () => client.listPolicies(), {
    everyMs: EVERY_MS,
  });
  const { id = "", version = "" } = query;
  return (
    <PageFrame title="Policies" problem={problem} isLoaded={data !== undefined}>
      {id !== "" && <ChosenPolicy key={`${id} ${version}`} policyId={id} version={version} />}
      <PolicyTable policies={data?.policies ?? []} />
    </PageFrame>
  );
}

interface ChosenPolicyProps {
  readonly policyId: string;
  /** Empty: the newest. */
  readonly version: string;
}

function ChosenPolicy({ policyId, version }: ChosenPolicyProps) {
  const policy = useSignal<PolicyView | undefined>(undefined);
  const problem = useSignal("");
  useEffect(() => {
    const options = /^[1-9]\d*$/u.test(version) ? { version: Number(version) } : {};
    client.getPolicy(policyId, options).then(
      (found) => {
        policy.value = found;
      },
      (error: unknown) => {
        problem.value = problemOf(error);
      },
    );
  }, []);
  if (problem.value !== "") return <Notice tone="bad">{problem.value}</Notice>;
  if (policy.value === undefined) return <p class="loading">Loading…</p>;
  const { document, unreadable, version: shown, source } = policy.value;
  return (
    <Card title={policyId} aside={`${source}, version ${shown}`}>
      {unreadable !== undefined && (
        <Notice tone="bad">This version of Redrive cannot read it: {unreadable}</Notice>
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a part that scrolls must be reachable by key. */}
      <pre class="raw" tabIndex={0}>
        {JSON.stringify(document, null, 2)}
      </pre>
    </Card>
  );
}

function PolicyTable({ policies }: { readonly policies: readonly PolicyView[] }) {
  return (
    <div class="table-wrap">
      <table class="table rows">
        <caption class="visually-hidden">Policies</caption>
        <thead>
          <tr>
            <th scope="col">Policy</th>
            <th scope="col">Source</th>
            <th scope="col">Version</th>
            <th scope="col">Attempts</th>
            <th scope="col">Created</th>
            <th scope="col">Tasks</th>
          </tr>
        </thead>
        <tbody>
          {policies.map((policy) => (
            <PolicyRow key={policy.policyId} policy={policy} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function PolicyRow({ policy }: { readonly policy: PolicyView }) {
  const { policyId, source, version, createdAt } = policy;
  return (
    <tr>
      <th scope="row" data-label="Policy">
        <Link page="policies" query={{ id: policyId }}>
          {policyId}
        </Link>
      </th>
      <td data-label="Source">{source}</td>
      <td data-label="Version">{version === 0 ? "not used yet" : version}</td>
      <td data-label="Attempts">{attemptsOf(policy) ?? "unknown"}</td>
      <td data-label="Created">{createdAt === null ? "built in" : <When at={createdAt} />}</td>
      <td data-label="Tasks">
        <Link page="tasks" query={{ policy: policyId }}>
          its tasks
        </Link>
      </td>
    </tr>
  );
}
