/** Chosen policy: one version of a policy. A registered one can be edited, which makes a new version. */
import { useSignal } from "@preact/signals";
import type { PolicyDocument } from "@redrive/core";
import { useEffect } from "preact/hooks";
import { Notice } from "../../components/notice.tsx";
import { DocumentEditor } from "../documents/document-editor.tsx";
import { type Document, policyKind } from "../documents/document-kinds.ts";
import { Link } from "../routing/link.tsx";
import { goTo } from "../routing/route.ts";
import { client, type PolicyView, problemOf } from "../service/client.ts";
import { may } from "../service/session.ts";
import { curveAddress, SimulatorLink } from "../simulator/links.tsx";

interface ChosenPolicyProps {
  readonly policyId: string;
  /** Empty: the newest. */
  readonly version: string;
  readonly draft: Document | undefined;
  onSaved(): void;
}

export function ChosenPolicy({ policyId, version, draft, onSaved }: ChosenPolicyProps) {
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
