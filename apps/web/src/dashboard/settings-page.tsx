/** Settings page: the API keys of the service, and its alerts. */
import { useSignal } from "@preact/signals";
import { formatDuration, formatNumber, formatPercent } from "@redrive/core";
import { Problem, Select, Toggle } from "../components/controls.tsx";
import { Card, Notice } from "../components/frames.tsx";
import {
  type AlertsView,
  client,
  type KeyView,
  may,
  now,
  problemOf,
  session,
} from "./parts/client.ts";
import { ActionButton, CopyButton, TextInput } from "./parts/form.tsx";
import { Link } from "./parts/link.tsx";
import { usePolled } from "./parts/live.ts";
import { EmptyState, PageFrame } from "./parts/page-frame.tsx";
import { Lasting, When } from "./parts/times.tsx";
import { visibleText } from "./parts/visible-text.ts";

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

/** Who is signed in, and what the key may do. */
function SessionCard() {
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

// Keys card: the API keys, a form that creates one, and a button that revokes one.

interface KeysCardProps {
  readonly isRequired: boolean;
  readonly isChangeable: boolean;
  readonly keys: readonly KeyView[];
  onChanged(): void;
}

function KeysCard({ isRequired, isChangeable, keys, onChanged }: KeysCardProps) {
  if (!isRequired) {
    return (
      <EmptyState title="The service requires no API key" command="redrive keys add --name ops">
        Everybody who reaches its address may use it, so it listens on this machine only. Create a
        key and restart the service to require one.
      </EmptyState>
    );
  }
  return (
    <Card title="API keys" aside="a key itself is shown once, when it is created">
      <div class="table-wrap">
        <table class="table rows">
          <caption class="visually-hidden">API keys</caption>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Id</th>
              <th scope="col">Tenant</th>
              <th scope="col">Scopes</th>
              <th scope="col">Limits</th>
              <th scope="col" class="number">
                Created
              </th>
              <th scope="col" class="number">
                Expires
              </th>
              <th scope="col">
                <span class="visually-hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {keys.map((key) => (
              <KeyRow key={key.keyId} record={key} onRevoked={onChanged} />
            ))}
          </tbody>
        </table>
      </div>
      {isChangeable ? (
        <NewKey onCreated={onChanged} />
      ) : (
        <p class="faint">
          The key of this service is set by REDRIVE_API_KEY. Only a SQLite store has a file for more
          keys.
        </p>
      )}
    </Card>
  );
}

interface KeyRowProps {
  readonly record: KeyView;
  onRevoked(): void;
}

function KeyRow({ record, onRevoked }: KeyRowProps) {
  const { keyId, name, tenantId, scopes, createdAt, expiresAt, isOwn, isRevocable } = record;
  const own = isOwn ? " You are signed in with it." : "";
  return (
    <tr>
      <th scope="row" data-label="Name" class="name">
        <span>
          <bdi>{visibleText(name) || "–"}</bdi> {isOwn && <span class="status accent">yours</span>}
        </span>
      </th>
      <td data-label="Id">
        <span class="id">{keyId}</span>
      </td>
      <td data-label="Tenant">{tenantId}</td>
      <td data-label="Scopes" class="wrap">
        {scopes.join(", ")}
      </td>
      <td data-label="Limits" class="wrap">
        {limitsText(record)}
      </td>
      <td data-label="Created" class="number">
        <When at={createdAt} />
      </td>
      <td data-label="Expires" class="number">
        {expiresAt === null ? <span class="faint">never</span> : <When at={expiresAt} />}
      </td>
      <td data-label="Actions" class="row-actions">
        {isRevocable ? (
          <ActionButton
            label="Revoke"
            isSmall
            question={`Revoke it? Programs that use it are refused at once.${own}`}
            act={() => client.revokeKey(keyId)}
            onDone={onRevoked}
          />
        ) : (
          <span class="faint">set at the start</span>
        )}
      </td>
    </tr>
  );
}

function limitsText({ limits }: KeyView): string {
  const { requestsPerSecond, requestsAtOnce, maxWaiting, targets } = limits;
  const parts = [
    requestsPerSecond !== undefined && `${formatNumber(requestsPerSecond)} per s`,
    requestsAtOnce !== undefined && `${formatNumber(requestsAtOnce)} at once`,
    maxWaiting !== undefined && `${formatNumber(maxWaiting)} waiting`,
    targets !== undefined && `to ${targets}`,
  ];
  return parts.filter(Boolean).join(", ") || "none";
}

// New key: a form that creates an API key and shows it once.

const DAY_MS = 86_400_000;

function emptyForm(): KeyForm {
  const tenantId = session.value?.tenantId ?? "default";
  return { name: "", tenantId, days: "", scopes: ["tasks:create", "tasks:read"] };
}

/** Returns the key itself. */
async function createKey({ name, tenantId, days, scopes }: KeyForm): Promise<string> {
  const expiresAt = now() + Number(days) * DAY_MS;
  const { key } = await client.createKey({
    ...{ name, tenantId, scopes: [...scopes] },
    ...(days !== "" && { expiresAt }),
  });
  return key;
}

function NewKey({ onCreated }: { onCreated(): void }) {
  const form = useSignal<KeyForm | undefined>(undefined);
  const created = useSignal("");
  const problem = useSignal("");
  const show = (next: KeyForm | undefined) => {
    form.value = next;
    problem.value = "";
  };
  if (created.value !== "") {
    const close = () => {
      created.value = "";
    };
    return <CreatedKey apiKey={created.value} onDone={close} />;
  }
  const shown = form.value;
  if (shown === undefined) {
    return (
      <button type="button" class="button" onClick={() => show(emptyForm())}>
        New key
      </button>
    );
  }
  const create = async () => {
    try {
      created.value = await createKey(shown);
      show(undefined);
      onCreated();
    } catch (error) {
      problem.value = problemOf(error);
    }
  };
  return (
    <form
      class="form boxed"
      onSubmit={(event) => {
        event.preventDefault();
        void create();
      }}
    >
      <h3>New key</h3>
      <KeyFields form={shown} onChange={show} />
      <Problem message={problem.value} />
      <div class="actions">
        <button type="submit" class="button accent" disabled={shown.scopes.length === 0}>
          Create the key
        </button>
        <button type="button" class="button" onClick={() => show(undefined)}>
          Cancel
        </button>
      </div>
    </form>
  );
}

interface CreatedKeyProps {
  readonly apiKey: string;
  onDone(): void;
}

function CreatedKey({ apiKey, onDone }: CreatedKeyProps) {
  return (
    <div class="form boxed">
      <Notice tone="warn">Copy the key now. The service stores only its hash.</Notice>
      <div class="command">
        <pre class="raw new-key">{apiKey}</pre>
        <CopyButton text={apiKey} label="Copy" />
      </div>
      <button type="button" class="button" onClick={onDone}>
        Done
      </button>
    </div>
  );
}

// Key fields: the name, the tenant, the lifetime and the scopes of a new key.

interface KeyForm {
  readonly name: string;
  readonly tenantId: string;
  /** Until it expires; empty: never. */
  readonly days: string;
  readonly scopes: readonly string[];
}

const SCOPES = [
  ["tasks:create", "create tasks"],
  ["tasks:read", "read tasks and destinations"],
  ["tasks:cancel", "cancel tasks and retry them now"],
  ["dlq:redrive", "redrive and discard dead letters"],
  ["payload:read", "read bodies"],
  ["metrics:read", "read the metrics"],
  ["admin", "everything, also policies, destinations and keys"],
] as const;

const LIFETIMES = [
  {
    label: "Lifetime",
    options: [
      { value: "30", label: "30 days" },
      { value: "90", label: "90 days" },
      { value: "365", label: "1 year" },
    ],
  },
];

interface KeyFieldsProps {
  readonly form: KeyForm;
  onChange(form: KeyForm): void;
}

function KeyFields({ form, onChange }: KeyFieldsProps) {
  const { name, tenantId, days, scopes } = form;
  return (
    <>
      <div class="filters">
        <TextInput
          label="Name"
          value={name}
          placeholder="shop"
          onChange={(text) => onChange({ ...form, name: text })}
        />
        {session.value?.tenantId === "default" && (
          <TextInput
            label="Tenant"
            value={tenantId}
            onChange={(text) => onChange({ ...form, tenantId: text })}
          />
        )}
        <Select
          label="Expires after"
          value={days}
          groups={LIFETIMES}
          emptyLabel="never"
          onChange={(value) => onChange({ ...form, days: value })}
        />
      </div>
      <fieldset class="scopes">
        <legend>Scopes</legend>
        {SCOPES.map(([scope, text]) => (
          <Toggle
            key={scope}
            checked={scopes.includes(scope)}
            onChange={(checked) => {
              const others = scopes.filter((one) => one !== scope);
              onChange({ ...form, scopes: checked ? [...others, scope] : others });
            }}
          >
            <code>{scope}</code> <span class="faint">{text}</span>
          </Toggle>
        ))}
      </fieldset>
    </>
  );
}

// Alerts card: where alerts are posted, when they fire, which fire now, and a test.

const NAMES: Readonly<Record<string, string>> = {
  "dead-letters": "too many dead letters",
  "breaker-open": "an open circuit",
  "late-tasks": "late tasks",
  "clock-refused": "a clock that was refused",
};

function AlertsCard({ alerts }: { readonly alerts: AlertsView }) {
  const { url, destination, deadLetterRatio, minDeadLetters, windowMs } = alerts;
  const { lateMs, repeatMs, runbookUrl } = alerts;
  if (url === null) {
    return (
      <EmptyState
        title="Alerts are off"
        command="redrive serve --alert-url https://hooks.example.com/oncall"
      >
        With a URL, the service posts an alert when dead letters pile up, a circuit opens, tasks are
        late, or the clock is refused, and again when that is over.
      </EmptyState>
    );
  }
  return (
    <Card title="Alerts" aside={<TestButton />}>
      <dl class="facts">
        <div>
          <dt>Posted to</dt>
          <dd>
            <bdi>{url}</bdi>{" "}
            {destination !== null && (
              <Link page="tasks" query={{ destination }}>
                its tasks
              </Link>
            )}
          </dd>
        </div>
        <div>
          <dt>Dead letters</dt>
          <dd>
            at least {minDeadLetters ?? 0}, and above {formatPercent(deadLetterRatio ?? 0)} of the
            tasks that ended in {formatDuration(windowMs ?? 0)}
          </dd>
        </div>
        <div>
          <dt>Late tasks</dt>
          <dd>when the oldest due task is {formatDuration(lateMs ?? 0)} late</dd>
        </div>
        <div>
          <dt>Circuits, clock</dt>
          <dd>when a circuit opens, or the clock is refused</dd>
        </div>
        <div>
          <dt>Posted again</dt>
          <dd>every {formatDuration(repeatMs ?? 0)} while an alert fires</dd>
        </div>
        <div>
          <dt>Runbook</dt>
          <dd>{runbookUrl}</dd>
        </div>
        <div>
          <dt>Firing now</dt>
          <dd>
            <Firing alerts={alerts} />
          </dd>
        </div>
      </dl>
    </Card>
  );
}

function Firing({ alerts: { firing } }: { readonly alerts: AlertsView }) {
  if (firing.length === 0) return <span class="status good">none</span>;
  return (
    <ul class="plain-list">
      {firing.map(({ alert, sinceAt, destination }) => (
        <li key={`${alert} ${destination}`}>
          <span class="status bad">{NAMES[alert] ?? alert}</span>{" "}
          {destination !== null && (
            <Link page="destination" query={{ name: destination }}>
              <bdi>{destination}</bdi>
            </Link>
          )}{" "}
          for <Lasting since={sinceAt} />
        </li>
      ))}
    </ul>
  );
}

function TestButton() {
  const taskId = useSignal("");
  return (
    <span class="actions">
      {taskId.value !== "" && (
        <Link page="task" query={{ id: taskId.value }}>
          the test alert
        </Link>
      )}
      <ActionButton
        label="Post a test alert"
        isSmall
        act={async () => {
          ({ taskId: taskId.value } = await client.testAlert());
        }}
      />
    </span>
  );
}
