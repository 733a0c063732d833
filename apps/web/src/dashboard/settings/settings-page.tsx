/** Settings page: the API keys of the service, and its alerts. */
import { Notice } from "../../components/notice.tsx";
import { PageFrame } from "../parts/page-frame.tsx";
import { client } from "../service/client.ts";
import { may, session } from "../service/session.ts";
import { usePolled } from "../service/use-polled.ts";
import { AlertsCard } from "./alerts-card.tsx";
import { KeysCard } from "./keys-card.tsx";
import { SessionCard } from "./session-card.tsx";

const EVERY_MS = 10_000;

/** Alerts are about all tenants, so only the operator may read them. */
async function load() {
  if (!may("admin")) return {};
  const isOperator = session.value?.tenantId === "default";
  const [keys, alerts] = await Promise.all([
    client.listKeys(),
    isOperator ? client.alerts() : undefined,
  ]);
  return { keys, alerts };
}

export function SettingsPage() {
  const { data, problem, reload } = usePolled("settings", load, { everyMs: EVERY_MS });
  return (
    <PageFrame title="Settings" problem={problem} isLoaded={data !== undefined}>
      <SessionCard />
      {!may("admin") && <Notice>Keys and alerts are shown to a key with the scope admin.</Notice>}
      {data?.keys !== undefined && <KeysCard {...data.keys} onChanged={reload} />}
      {data?.alerts !== undefined && <AlertsCard alerts={data.alerts} />}
    </PageFrame>
  );
}
