/** Overview page: what an engineer on call needs first: health, the last hour, trouble, holds. */
import { formatCount, formatInteger } from "@redrive/core";
import { Card } from "../../components/card.tsx";
import { Notice } from "../../components/notice.tsx";
import { DestinationTable } from "../destinations/destination-table.tsx";
import { holdGroups } from "../destinations/holds.ts";
import {
  changesDestinations,
  type Destinations,
  loadDestinations,
} from "../destinations/load-destinations.ts";
import { byTrouble, totalTasks, troubleOf } from "../destinations/trouble.ts";
import { causeLabel } from "../parts/causes.ts";
import { EmptyState } from "../parts/empty-state.tsx";
import { PageFrame } from "../parts/page-frame.tsx";
import { roundDuration } from "../parts/round-duration.ts";
import { statusLabel } from "../parts/status.tsx";
import { Tile } from "../parts/tile.tsx";
import { tick } from "../parts/times.tsx";
import { visibleText } from "../parts/visible-text.ts";
import { setText } from "../redrives/set-text.ts";
import { Link } from "../routing/link.tsx";
import {
  type Activity,
  client,
  createCommand,
  type DestinationView,
  type RedriveView,
} from "../service/client.ts";
import { usePolled } from "../service/use-polled.ts";
import { healthSentence } from "./health-sentence.ts";
import { figuresOf } from "./last-hour.ts";
import { Sparkline } from "./sparkline.tsx";

const EVERY_MS = 5000;
/** Reading all destinations costs the service more than one event is worth. */
const EVENT_DELAY_MS = 2000;
/** Destinations on the page. The others are on their own page. */
const MAX_SHOWN = 8;

interface Loaded extends Destinations {
  readonly activity: Activity;
  readonly running: readonly RedriveView[];
}

async function load(): Promise<Loaded> {
  const [destinations, activity, { redrives }] = await Promise.all([
    loadDestinations(),
    client.activity(),
    client.listRedrives(),
  ]);
  const running = redrives.filter(({ status }) => status === "RUNNING" || status === "PAUSED");
  return { ...destinations, activity, running };
}

export function OverviewPage() {
  const { data, problem } = usePolled("overview", load, {
    everyMs: EVERY_MS,
    eventDelayMs: EVENT_DELAY_MS,
    isConcerned: changesDestinations,
  });
  return (
    <PageFrame title="Overview" problem={problem} isLoaded={data !== undefined}>
      {data !== undefined && <Content {...data} />}
    </PageFrame>
  );
}

function Content({ destinations, isComplete, activity, running }: Loaded) {
  if (destinations.length === 0) return <FirstSteps />;
  const now = tick.value;
  const sorted = byTrouble(destinations, now);
  const troubled = sorted.filter((one) => troubleOf(one, now).severity > 0);
  const totals = totalTasks(destinations);
  const shown = (troubled.length > 0 ? troubled : sorted).slice(0, MAX_SHOWN);
  const facts = { total: destinations.length, troubled: troubled.length, totals };
  return (
    <>
      <p class={troubled.length > 0 ? "sentence health bad" : "sentence health good"}>
        {healthSentence(facts)}
      </p>
      {!isComplete && (
        <Notice>
          Only the first {formatInteger(destinations.length)} destinations count here.
        </Notice>
      )}
      <LastHour activity={activity} />
      <Counts totals={totals} />
      {running.length > 0 && <RunningRedrives redrives={running} />}
      <Card
        title={troubled.length > 0 ? "Destinations in trouble" : "Destinations"}
        aside={
          <Link page="destinations">All destinations ({formatInteger(destinations.length)})</Link>
        }
      >
        <DestinationTable destinations={shown} />
      </Card>
      <Held destinations={destinations} />
    </>
  );
}

function LastHour({ activity }: { readonly activity: Activity }) {
  const { firstMinuteAt, minuteMs } = activity;
  return (
    <section aria-labelledby="last-hour">
      <h2 id="last-hour" class="section-title">
        Last hour <span class="faint">one bar per minute</span>
      </h2>
      <dl class="tiles">
        {figuresOf(activity).map((figure) => {
          const { name, label, value, note, isBad = false, series, max, formatMinute } = figure;
          return (
            <Tile
              key={name}
              label={label}
              value={value}
              note={note}
              isBad={isBad}
              line={(onPoint) => (
                <Sparkline
                  {...{ series, max, firstMinuteAt, minuteMs, isBad, formatMinute, onPoint }}
                />
              )}
            />
          );
        })}
      </dl>
    </section>
  );
}

const STATUSES = ["PENDING", "IN_FLIGHT", "EXHAUSTED", "SUCCEEDED", "CANCELLED"] as const;

function Counts({ totals }: { readonly totals: Readonly<Record<string, number>> }) {
  return (
    <nav class="count-links" aria-label="Tasks by status">
      <span class="faint">All stored tasks</span>
      {STATUSES.map((status) => (
        <Link key={status} page="tasks" query={{ status }}>
          <strong>{formatInteger(totals[status] ?? 0)}</strong>{" "}
          {status === "EXHAUSTED" ? "dead letters" : statusLabel(status)}
        </Link>
      ))}
    </nav>
  );
}

function RunningRedrives({ redrives }: { readonly redrives: readonly RedriveView[] }) {
  return (
    <Card title="Redrives">
      <ul class="plain-list">
        {redrives.map((redrive) => (
          <li key={redrive.redriveId}>
            <Link page="redrives" query={{ id: redrive.redriveId }}>
              {setText(redrive)}
            </Link>
            : <RedriveState redrive={redrive} />
          </li>
        ))}
      </ul>
    </Card>
  );
}

function RedriveState({ redrive }: { readonly redrive: RedriveView }) {
  const { status, redriven, total, waitsFor, error } = redrive;
  return (
    <>
      {formatInteger(redriven)} of {formatCount(total, "dead letter")} redriven
      {status === "PAUSED" && ", paused"}
      {error !== null && `: ${visibleText(error)}`}
      {waitsFor !== null && <span class="faint">, waits for {visibleText(waitsFor)}</span>}
    </>
  );
}

function Held({ destinations }: { readonly destinations: readonly DestinationView[] }) {
  const now = tick.value;
  const groups = holdGroups(destinations, now);
  if (groups.length === 0) return null;
  return (
    <Card title="Held now" aside="waiting tasks of the destinations that a guard holds">
      <ul class="holds">
        {groups.map(({ by, destinations: names, waiting, sinceAt }) => (
          <li key={by}>
            <span class={`swatch wait ${by}`} aria-hidden="true" />
            <strong>{causeLabel(by)}</strong>
            <span>{formatCount(waiting, "waiting task")}</span>
            <span class="hold-names">
              {names.slice(0, MAX_NAMES).map((name, index) => (
                <>
                  {index > 0 && ", "}
                  <Link key={name} page="destination" query={{ name }}>
                    <bdi>{name}</bdi>
                  </Link>
                </>
              ))}
              {names.length > MAX_NAMES && ` and ${formatInteger(names.length - MAX_NAMES)} more`}
            </span>
            <span class="faint">
              {sinceAt !== undefined &&
                now - sinceAt >= 1000 &&
                `for ${roundDuration(now - sinceAt)}`}
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

/** Names of one guard. */
const MAX_NAMES = 4;

function FirstSteps() {
  return (
    <EmptyState title="The service is ready and has no tasks" command={createCommand()}>
      Hand over a call. Redrive stores it, attempts it, and retries it until it succeeds or becomes
      a dead letter. This page follows.
    </EmptyState>
  );
}
