/** Overview page: what an engineer on call needs first: health, counts, activity, trouble. */
import { formatInteger, formatPercent } from "@redrive/core";
import { Card } from "../../components/card.tsx";
import { Notice } from "../../components/notice.tsx";
import { DestinationTable } from "../destinations/destination-table.tsx";
import {
  changesDestinations,
  type Destinations,
  loadDestinations,
} from "../destinations/load-destinations.ts";
import { byTrouble, totalTasks, troubleOf } from "../destinations/trouble.ts";
import { EmptyState } from "../parts/empty-state.tsx";
import { PageFrame } from "../parts/page-frame.tsx";
import { statusLabel } from "../parts/status.tsx";
import { roundDuration, tick, When } from "../parts/times.tsx";
import { Link } from "../routing/link.tsx";
import { client, serviceUrl } from "../service/client.ts";
import { may, session } from "../service/session.ts";
import { usePolled } from "../service/use-polled.ts";
import { type Measure, seriesOf } from "./activity.ts";
import { activity } from "./activity-state.ts";
import { healthSentence, oldestAge } from "./health-sentence.ts";
import { Sparkline } from "./sparkline.tsx";

const EVERY_MS = 5000;
/** Destinations on the page. The others are on their own page. */
const MAX_SHOWN = 10;

interface Loaded extends Destinations {
  /** In ms; undefined: unknown, because the key may not read the metrics. */
  readonly oldestAgeMs: number | undefined;
}

async function load(): Promise<Loaded> {
  const [destinations, oldestAgeMs] = await Promise.all([loadDestinations(), readOldestAge()]);
  return { ...destinations, oldestAgeMs };
}

/** Only the operator may read the metrics, because they cover all tenants. */
async function readOldestAge(): Promise<number | undefined> {
  if (!may("metrics:read") || session.value?.tenantId !== "default") return undefined;
  return oldestAge(await client.metrics());
}

export function OverviewPage() {
  const { data, problem } = usePolled("overview", load, {
    everyMs: EVERY_MS,
    isConcerned: changesDestinations,
  });
  return (
    <PageFrame title="Overview" problem={problem} isLoaded={data !== undefined}>
      {data !== undefined && <Content {...data} />}
    </PageFrame>
  );
}

function Content({ destinations, isComplete, oldestAgeMs }: Loaded) {
  if (destinations.length === 0) return <FirstSteps />;
  const now = tick.value;
  const sorted = byTrouble(destinations, now);
  const troubled = sorted.filter((one) => troubleOf(one, now).severity > 0);
  const totals = totalTasks(destinations);
  const shown = (troubled.length > 0 ? troubled : sorted).slice(0, MAX_SHOWN);
  return (
    <>
      <p class="sentence">
        {healthSentence({ total: destinations.length, troubled: troubled.length, totals })}
      </p>
      {!isComplete && (
        <Notice>
          Only the first {formatInteger(destinations.length)} destinations count here.
        </Notice>
      )}
      <Card title="Tasks now">
        <ul class="figures">
          {["PENDING", "IN_FLIGHT", "EXHAUSTED", "SUCCEEDED", "CANCELLED"].map((status) => (
            <li key={status}>
              <Link page="tasks" query={{ status }}>
                <strong>{formatInteger(totals[status] ?? 0)}</strong>{" "}
                {status === "EXHAUSTED" ? "dead letters" : statusLabel(status)}
              </Link>
            </li>
          ))}
          {oldestAgeMs !== undefined && (
            <li>
              <span>
                <strong>{oldestAgeMs === 0 ? "none" : roundDuration(oldestAgeMs)}</strong> age of
                the oldest open task
              </span>
            </li>
          )}
        </ul>
      </Card>
      <ActivityCard />
      <Card
        title={troubled.length > 0 ? "Destinations in trouble" : "Destinations"}
        aside={
          <Link page="destinations">All destinations ({formatInteger(destinations.length)})</Link>
        }
      >
        <DestinationTable destinations={shown} />
      </Card>
    </>
  );
}

const FIGURES: readonly { readonly measure: Measure; readonly label: string }[] = [
  { measure: "attempts", label: "attempts" },
  { measure: "retries", label: "retries" },
  { measure: "succeeded", label: "tasks succeeded" },
  { measure: "dead", label: "new dead letters" },
];

function ActivityCard() {
  const now = tick.value;
  const { value } = activity;
  const totals = new Map(
    FIGURES.map(({ measure }) => [measure, sum(seriesOf(value, measure, now))] as const),
  );
  const succeeded = totals.get("succeeded") ?? 0;
  const ended = succeeded + (totals.get("dead") ?? 0);
  return (
    <Card
      title="Activity of the last hour"
      aside={
        <>
          counted by this page since it was opened, <When at={value.sinceAt} />
        </>
      }
    >
      <ul class="figures">
        {FIGURES.map(({ measure, label }) => (
          <li key={measure}>
            <span>
              <strong>{formatInteger(totals.get(measure) ?? 0)}</strong> {label}
            </span>
            <Sparkline values={seriesOf(value, measure, now)} />
          </li>
        ))}
        <li>
          <span>
            <strong>{ended === 0 ? "none" : formatPercent(succeeded / ended)}</strong> of the ended
            tasks succeeded
          </span>
        </li>
      </ul>
    </Card>
  );
}

function sum(values: readonly number[]): number {
  return values.reduce((total, each) => total + each, 0);
}

function FirstSteps() {
  return (
    <EmptyState
      title="The service is ready and has no tasks"
      command={`curl --json '{ "targetUrl": "https://example.com/hook", "json": { "order": 17 } }' ${serviceUrl}retry-tasks`}
    >
      Hand over a call. Redrive stores it, attempts it, and retries it until it succeeds or becomes
      a dead letter. This page follows.
    </EmptyState>
  );
}
