/** Session card: who is signed in, and what the key may do. */
import { Card } from "../../components/card.tsx";
import { session } from "../service/session.ts";

export function SessionCard() {
  const { tenantId = "", scopes = [], hasCookie = false } = session.value ?? {};
  return (
    <Card title="You">
      <dl class="facts">
        <div>
          <dt>Tenant</dt>
          <dd>{tenantId}</dd>
        </div>
        <div>
          <dt>Scopes</dt>
          <dd>{scopes.includes("admin") ? "admin: everything" : scopes.join(", ")}</dd>
        </div>
        <div>
          <dt>Signed in</dt>
          <dd>
            {hasCookie
              ? "with an API key, for at most 12 hours"
              : "the service requires no key here"}
          </dd>
        </div>
      </dl>
    </Card>
  );
}
