/** Destination page: the state of one destination, pause and resume, and its document. */
import { formatInteger } from "@redrive/core";
import { Card } from "../../components/card.tsx";
import { Stat, Stats } from "../../components/stat.tsx";
import { ActionButton } from "../parts/action-button.tsx";
import { PageFrame } from "../parts/page-frame.tsx";
import { statusLabel } from "../parts/status.tsx";
import { tick } from "../parts/times.tsx";
import { Link } from "../routing/link.tsx";
import { route } from "../routing/route.ts";
import { client, type DestinationView } from "../service/client.ts";
import { may } from "../service/session.ts";
import { usePolled } from "../service/use-polled.ts";
import { latencyText, State, slotsText } from "./destination-table.tsx";
import { DocumentForm } from "./document-form.tsx";
import { changesDestinations } from "./load-destinations.ts";

const EVERY_MS = 3000;

export function DestinationPage() {
  const name = route.value.query["name"] ?? "";
  const { data, problem, reload } = usePolled(name, () => client.getDestination(name), {
    everyMs: EVERY_MS,
    isConcerned: (event) => event.destination === name && changesDestinations(event),
  });
  return (
    <PageFrame
      title={name}
      problem={problem}
      isLoaded={data !== undefined}
      actions={
        data !== undefined &&
        may("admin") && <PauseButton key={name} destination={data} onDone={reload} />
      }
    >
      {data !== undefined && <Loaded destination={data} onSaved={reload} />}
    </PageFrame>
  );
}

interface PauseButtonProps {
  readonly destination: DestinationView;
  onDone(): void;
}

function PauseButton({ destination: { name, pausedAt, backlog }, onDone }: PauseButtonProps) {
  if (pausedAt !== null) {
    return (
      <ActionButton
        key="resume"
        label="Resume"
        isAccent
        act={() => client.resumeDestination(name)}
        onDone={onDone}
      />
    );
  }
  const tasks = backlog === 1 ? "1 task waits" : `${formatInteger(backlog)} tasks wait`;
  return (
    <ActionButton
      key="pause"
      label="Pause"
      question={`Start no attempts until somebody resumes it? ${tasks} now; their time keeps running.`}
      act={() => client.pauseDestination(name)}
      onDone={onDone}
    />
  );
}

interface LoadedProps {
  readonly destination: DestinationView;
  onSaved(): void;
}

function Loaded({ destination, onSaved }: LoadedProps) {
  const { name, tasks, breakerState, retryBudget, rateUntil, gateUntil, backlog } = destination;
  const now = tick.value;
  return (
    <>
      <p class="sentence">
        <State destination={destination} />
      </p>
      <Card title="Guards" aside="of the node that answers">
        <Stats>
          <Stat label="Breaker" value={breakerState.toLowerCase().replace("_", " ")} />
          <Stat label="Retry budget" value={retryBudget} />
          <Stat label="Running" value={slotsText(destination)} />
          <Stat label="Rate" value={rateUntil > now ? "waits for tokens" : "open"} />
          <Stat label="Retry-After gate" value={gateUntil > now ? "shut" : "open"} />
          <Stat label="Backlog" value={formatInteger(backlog)} note="waiting and running" />
          <Stat label="Latency p50, p99" value={latencyText(destination)} />
        </Stats>
      </Card>
      <Card title="Tasks">
        <ul class="counts">
          {Object.entries(tasks).map(([status, count]) => (
            <li key={status}>
              <Link page="tasks" query={{ status, destination: name }}>
                {formatInteger(count)} {statusLabel(status)}
              </Link>
            </li>
          ))}
        </ul>
      </Card>
      <Targets destination={destination} onEnabled={onSaved} />
      <DocumentForm key={name} destination={destination} onSaved={onSaved} />
    </>
  );
}

interface TargetsProps {
  readonly destination: DestinationView;
  onEnabled(): void;
}

function Targets({ destination: { name, disabledTargets }, onEnabled }: TargetsProps) {
  if (disabledTargets.length === 0) return null;
  return (
    <Card title="Disabled targets" aside="they responded 410 Gone">
      <ul class="plain-list">
        {disabledTargets.map(({ targetUrl }) => (
          <li key={targetUrl}>
            <bdi>{targetUrl}</bdi>{" "}
            {may("admin") && (
              <ActionButton
                label="Enable"
                act={() => client.enableTarget(name, targetUrl)}
                onDone={onEnabled}
              />
            )}
          </li>
        ))}
      </ul>
    </Card>
  );
}
