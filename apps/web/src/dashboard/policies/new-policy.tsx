/** New policy: registers a policy under a new id. */
import type { PolicyDocument } from "@redrive/core";
import { DocumentEditor } from "../documents/document-editor.tsx";
import { type Document, policyKind } from "../documents/document-kinds.ts";
import { goTo } from "../routing/route.ts";
import { client } from "../service/client.ts";

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

export function NewPolicy({ draft, onSaved }: NewPolicyProps) {
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
