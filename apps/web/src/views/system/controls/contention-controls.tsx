/** Contention controls: the fields of a scenario in which clients write the same row. */
import { type PolicyDocument, resolvePolicy } from "@redrive/core";
import type { ContentionDocument } from "@redrive/simulator";
import { policySummary } from "@redrive/simulator/text";
import { Card } from "../../../components/card.tsx";
import { DurationField } from "../../../components/duration-field.tsx";
import { Field } from "../../../components/field.tsx";
import { merged, ownPolicyOf } from "../document/document.ts";
import { edit } from "../state/system-store.ts";

export function ContentionControls({ document }: { readonly document: ContentionDocument }) {
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
