/** Service policy: a menu of the policies of the service that serves this page. A static site has none. */
import { useSignal } from "@preact/signals";
import type { PolicyDocument } from "@redrive/core";
import { useEffect } from "preact/hooks";
import { isServed } from "../../../app/header.tsx";
import { Select } from "../../../components/select.tsx";
import { isSame } from "../document/document.ts";

interface ListedPolicy {
  readonly policyId: string;
  readonly source: string;
  readonly document: PolicyDocument;
}

interface ServicePolicyProps {
  readonly policy: PolicyDocument;
  onPick(policy: PolicyDocument): void;
}

export function ServicePolicy({ policy, onPick }: ServicePolicyProps) {
  const listed = useSignal<readonly ListedPolicy[]>([]);
  useEffect(() => {
    if (!isServed()) return;
    void listPolicies().then((found) => {
      listed.value = found;
    });
  }, []);
  const policies = listed.value;
  if (policies.length === 0) return null;
  const groupOf = (label: string, source: string) => ({
    label,
    options: policies
      .filter((one) => one.source === source)
      .map(({ policyId }) => ({ value: policyId, label: policyId })),
  });
  const groups = [groupOf("Registered", "registered"), groupOf("Presets", "preset")];
  return (
    <Select
      label="Policy of this service"
      value={policies.find(({ document }) => isSame(document, policy))?.policyId ?? ""}
      emptyLabel="custom"
      groups={groups.filter(({ options }) => options.length > 0)}
      onChange={(id) => {
        const picked = policies.find(({ policyId }) => policyId === id);
        if (picked !== undefined) onPick(picked.document);
      }}
    />
  );
}

/** None if nobody is signed in, or the key may not read policies: the page works without. */
async function listPolicies(): Promise<readonly ListedPolicy[]> {
  try {
    const response = await fetch(new URL("../retry-policies", location.href));
    if (!response.ok) return [];
    const { policies } = (await response.json()) as { policies: readonly ListedPolicy[] };
    return policies;
  } catch {
    return [];
  }
}
