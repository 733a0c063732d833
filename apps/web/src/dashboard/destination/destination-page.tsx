/** Destination page: the state of one destination, its last hour, pause and resume, and its document. */
import { formatCount, formatInteger } from "@redrive/core";
import { Card } from "../../components/card.tsx";
import { State } from "../destinations/destination-table.tsx";
import { changesDestinations } from "../destinations/load-destinations.ts";
import { DocumentEditor } from "../documents/document-editor.tsx";
import { type Document, destinationKind } from "../documents/document-kinds.ts";
import { readDraftOf } from "../documents/draft.ts";
import { ActionButton } from "../parts/action-button.tsx";
import { PageFrame } from "../parts/page-frame.tsx";
import { statusLabel } from "../parts/status.tsx";
import { Link } from "../routing/link.tsx";
import { goTo, route } from "../routing/route.ts";
import { client, type DestinationHistory, type DestinationView } from "../service/client.ts";
import { may } from "../service/session.ts";
import { usePolled } from "../service/use-polled.ts";
import { SimulatorLink, systemAddress } from "../simulator/links.tsx";
import { OutageCard } from "../simulator/outage-card.tsx";
import { AttemptsCard } from "./attempts-chart.tsx";
import { GuardTiles } from "./guard-tiles.tsx";
import { LimitCard } from "./limit-card.tsx";

const EVERY_MS = 3000;

interface Loaded {
  readonly destination: DestinationView;
  readonly history: DestinationHistory;
}

async function load(name: string): Promise<Loaded> {
  const [destination, history] = await Promise.all([
    client.getDestination(name),
    client.destinationHistory(name),
  ]);
  return { destination, history };
}

export function DestinationPage() {
  const name = route.value.query["name"] ?? "";
  const { data, problem, reload } = usePolled(name, () => load(name), {
    everyMs: EVERY_MS,
    isConcerned: (event) => event.destination === name && changesDestinations(event),
  });
  return (
    <PageFrame
      title={name}
      parent={<Link page="destinations">Destinations</Link>}
      problem={problem}
      isLoaded={data !== undefined}
      actions={
        data !== undefined && (
          <>
            {may("admin") && (
              <PauseButton key={name} destination={data.destination} onDone={reload} />
            )}
            <SimulatorLink address={systemAddress(data.destination, data.history)} />
          </>
        )
      }
    >
      {data !== undefined && <Content {...data} onSaved={reload} />}
    </PageFrame>
  );
}

interface PauseButtonProps {
  readonly destination: DestinationView;
  onDone(): void;
}

function PauseButton({ destination: { name, pausedAt, tasks }, onDone }: PauseButtonProps) {
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
  const waiting = formatCount(tasks["PENDING"] ?? 0, "task");
  return (
    <ActionButton
      key="pause"
      label="Pause"
      question={`Start no attempts until somebody resumes it? ${waiting} ${tasks["PENDING"] === 1 ? "waits" : "wait"} now; their time keeps running.`}
      act={() => client.pauseDestination(name)}
      onDone={onDone}
    />
  );
}

interface ContentProps extends Loaded {
  onSaved(): void;
}

function Content({ destination, history, onSaved }: ContentProps) {
  const { name, concurrency, document } = destination;
  return (
    <>
      <p class="sentence">
        <State destination={destination} />
      </p>
      <section aria-labelledby="guards">
        <h2 id="guards" class="section-title">
          Guards <span class="faint">of the node that answers</span>
        </h2>
        <GuardTiles destination={destination} />
      </section>
      <Counts destination={destination} />
      <div class="columns">
        <AttemptsCard history={history} />
        {concurrency !== null && <LimitCard changes={history.limits} limit={concurrency.limit} />}
      </div>
      <Targets destination={destination} onEnabled={onSaved} />
      <OutageCard key={`outage ${name}`} name={name} />
      <DocumentEditor
        key={name}
        title="Document of the destination"
        hint="policy and guards; {} means all defaults"
        kind={destinationKind}
        stored={(document ?? {}) as Document}
        draft={readDraftOf(route.value.query)}
        isEditable={may("admin")}
        effect="New attempts use it."
        save={(edited) => client.configureDestination(name, edited)}
        onSaved={() => {
          if (route.value.query["draft"] !== undefined) goTo("destination", { name });
          onSaved();
        }}
      />
    </>
  );
}

function Counts({ destination: { name, tasks } }: { readonly destination: DestinationView }) {
  const entries = Object.entries(tasks);
  if (entries.length === 0) return null;
  return (
    <nav class="count-links" aria-label="Tasks of the destination">
      {entries.map(([status, count]) => (
        <Link key={status} page="tasks" query={{ status, destination: name }}>
          <strong>{formatInteger(count)}</strong>{" "}
          {status === "EXHAUSTED" ? "dead letters" : statusLabel(status)}
        </Link>
      ))}
    </nav>
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
