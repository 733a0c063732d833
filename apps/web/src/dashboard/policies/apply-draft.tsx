/** Apply draft: asks where a document from the simulator is applied. The editor then shows the difference. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Card } from "../../components/card.tsx";
import { Select } from "../../components/select.tsx";
import type { Document } from "../documents/document-kinds.ts";
import { Link } from "../routing/link.tsx";
import { goTo } from "../routing/route.ts";
import { client, type PolicyView } from "../service/client.ts";

interface ApplyDraftProps {
  readonly draft: Document;
  readonly policies: readonly PolicyView[];
}

/** A document with guards is for a destination; a policy can be applied to both. */
const GUARDS = ["policy", "breaker", "retryBudget", "concurrency", "rate", "retryAfterGate"];

const MAX_NAMES = 250;

export function ApplyDraft({ draft, policies }: ApplyDraftProps) {
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
