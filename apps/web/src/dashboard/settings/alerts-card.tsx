/** Alerts card: where alerts are posted, when they fire, which fire now, and a test. */
import { useSignal } from "@preact/signals";
import { formatDuration, formatPercent } from "@redrive/core";
import { Card } from "../../components/card.tsx";
import { ActionButton } from "../parts/action-button.tsx";
import { EmptyState } from "../parts/empty-state.tsx";
import { Lasting } from "../parts/times.tsx";
import { Link } from "../routing/link.tsx";
import { type AlertsView, client } from "../service/client.ts";

const NAMES: Readonly<Record<string, string>> = {
  "dead-letters": "too many dead letters",
  "breaker-open": "an open circuit",
  "late-tasks": "late tasks",
  "clock-refused": "a clock that was refused",
};

export function AlertsCard({ alerts }: { readonly alerts: AlertsView }) {
  const { url, destination, deadLetterRatio, windowMs, lateMs, runbookUrl } = alerts;
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
            above {formatPercent(deadLetterRatio ?? 0)} of the tasks that ended in{" "}
            {formatDuration(windowMs ?? 0)}
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
