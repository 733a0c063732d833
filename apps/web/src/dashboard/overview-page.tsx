/** Overview page: what an engineer on call needs first: health, the last hour, trouble, holds. */
import { useSignal } from "@preact/signals";
import { formatCount, formatInteger, formatNumber, formatPercent } from "@redrive/core";
import { Card, Notice } from "../components/frames.tsx";
import {
  type Activity,
  client,
  createCommand,
  type DestinationView,
  type RedriveView,
} from "./parts/client.ts";
import {
  byTrouble,
  changesDestinations,
  type Destinations,
  DestinationTable,
  loadDestinations,
  totalTasks,
  troubleOf,
} from "./parts/destination-table.tsx";
import { Link } from "./parts/link.tsx";
import { usePolled } from "./parts/live.ts";
import { EmptyState, PageFrame, Tile } from "./parts/page-frame.tsx";
import { causeLabel, statusLabel } from "./parts/status.tsx";
import { roundDuration, tick } from "./parts/times.tsx";
import { setText, visibleText } from "./parts/visible-text.ts";

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
  const newDead = activity.counts.deadLetters.reduce((sum, count) => sum + count, 0);
  const facts = { total: destinations.length, troubled: troubled.length, totals, newDead };
  return (
    <>
      <p class={isHealthy(facts) ? "sentence health good" : "sentence health bad"}>
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

// Sparkline: one bar per minute, and the value of the minute under the pointer.

const SPARK_WIDTH = 180;
const SPARK_HEIGHT = 32;
const SPARK_GAP = 1;
/** A minute that is not empty stays visible. */
const MIN_SPARK_HEIGHT = 1.5;

interface SparklineProps {
  /** Per minute, the oldest first; null: that minute has no value. */
  readonly series: readonly (number | null)[];
  /** The value of a full bar. Default: the largest one. */
  readonly max?: number | undefined;
  readonly firstMinuteAt: number;
  readonly minuteMs: number;
  readonly isBad?: boolean;
  /** Null: the minute has no value. */
  formatMinute(value: number | null): string;
  /** Called with the text for the minute under the pointer, or "". */
  onPoint(text: string): void;
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });

function Sparkline(props: SparklineProps) {
  const { series, max, firstMinuteAt, minuteMs, isBad = false, formatMinute, onPoint } = props;
  const pointed = useSignal(-1);
  const step = SPARK_WIDTH / Math.max(1, series.length);
  const point = (index: number) => {
    pointed.value = index;
    const value = series[index];
    const at = CLOCK.format(firstMinuteAt + index * minuteMs);
    onPoint(value === undefined ? "" : `${at}: ${formatMinute(value)}`);
  };
  return (
    <svg
      class={isBad ? "sparkline bad" : "sparkline"}
      viewBox={`0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
      onPointerMove={(event) => {
        const { left, width } = event.currentTarget.getBoundingClientRect();
        point(Math.floor(((event.clientX - left) / width) * series.length));
      }}
      onPointerLeave={() => point(-1)}
    >
      <path class="spark-base" d={`M0 ${SPARK_HEIGHT - 0.5}H${SPARK_WIDTH}`} />
      <path class="spark-bars" d={barsOf(series, step, max)} />
      {pointed.value >= 0 && (
        <rect
          class="spark-point"
          x={pointed.value * step}
          width={step - SPARK_GAP}
          height={SPARK_HEIGHT}
        />
      )}
    </svg>
  );
}

/** The bars as one path: five lines have three hundred of them. */
function barsOf(series: readonly (number | null)[], step: number, full?: number): string {
  const max = full ?? Math.max(...series.map((value) => value ?? 0));
  const bars = series.map((value, index) => {
    if (value === 0 || value === null) return "";
    const height = Math.max(MIN_SPARK_HEIGHT, (value / max) * (SPARK_HEIGHT - 2)).toFixed(2);
    const [x, width] = [(index * step).toFixed(2), (step - SPARK_GAP).toFixed(2)];
    return `M${x} ${SPARK_HEIGHT}v-${height}h${width}v${height}z`;
  });
  return bars.join("");
}

interface HealthFacts {
  readonly total: number;
  readonly troubled: number;
  /** Tasks by status. */
  readonly totals: Readonly<Record<string, number>>;
  /** Dead letters of the last hour. */
  readonly newDead: number;
}

/** Good news only while nothing has just been lost. */
export function isHealthy({ troubled, newDead }: HealthFacts): boolean {
  return troubled === 0 && newDead === 0;
}

/** The state of the service. */
export function healthSentence({ total, troubled, totals, newDead }: HealthFacts): string {
  const all = formatCount(total, "destination");
  const health =
    troubled === 0
      ? `${newDead === 0 ? "No trouble" : "No trouble now"} at ${all}`
      : `Trouble at ${formatInteger(troubled)} of ${all}`;
  const waiting = formatInteger(totals["PENDING"] ?? 0);
  const letters = formatCount(totals["EXHAUSTED"] ?? 0, "dead letter");
  const recent = newDead === 0 ? "" : `, ${formatInteger(newDead)} of them in the last hour`;
  return `${health}; ${waiting} waiting, ${letters}${recent}.`;
}

// Last hour: the figures of the overview, from the counts per minute that the service keeps.

interface Figure {
  readonly name: string;
  readonly label: string;
  readonly value: string;
  readonly note: string;
  /** Per minute, the oldest first; null: that minute has no value. */
  readonly series: readonly (number | null)[];
  /** The value of a full bar. Default: the largest one. */
  readonly max?: number;
  /** The value of one minute, with its unit; null: it has none. */
  formatMinute(value: number | null): string;
  readonly isBad?: boolean;
}

type MinuteCounts = Activity["counts"];

export function figuresOf({ counts }: Activity): readonly Figure[] {
  const { succeeded, deadLetters, attempts, retries } = counts;
  const [good, dead, all, again] = [succeeded, deadLetters, attempts, retries].map(sumOf) as [
    number,
    number,
    number,
    number,
  ];
  return [
    {
      name: "throughput",
      label: "Succeeded",
      value: formatInteger(good),
      note: `${perMinute(succeeded)} in the last minute`,
      series: succeeded,
      formatMinute: countOf("succeeded"),
    },
    {
      name: "success",
      label: "Success rate",
      value: good + dead === 0 ? "–" : formatPercent(good / (good + dead)),
      note: "of the tasks that ended",
      series: rateSeries(counts),
      max: 1,
      formatMinute: (value) => (value === null ? "no task ended" : formatPercent(value)),
      isBad: dead > good,
    },
    {
      name: "retries",
      label: "Retries",
      value: formatInteger(again),
      note: all === again ? "no first attempts" : `${amplification(all, again)} attempts per task`,
      series: retries,
      formatMinute: countOf("retries"),
    },
    {
      name: "dead",
      label: "New dead letters",
      value: formatInteger(dead),
      note: "in the last hour",
      series: deadLetters,
      formatMinute: countOf("dead letters"),
      isBad: dead > 0,
    },
    {
      name: "oldest",
      label: "Oldest open task",
      value: ageText(lastAge(counts.oldestAgeMs)),
      note: lastAge(counts.oldestAgeMs) === 0 ? "no task is open" : "since it was created",
      series: counts.oldestAgeMs,
      formatMinute: (value) => ageText(value ?? 0),
    },
  ];
}

/** Every minute has a count. */
function countOf(unit: string): Figure["formatMinute"] {
  return (value) => `${formatInteger(value ?? 0)} ${unit}`;
}

function sumOf(values: readonly number[]): number {
  return values.reduce((total, each) => total + each, 0);
}

/** Of the last minute that is over. */
function perMinute(values: readonly number[]): string {
  return formatInteger(values.at(-2) ?? 0);
}

function amplification(attempts: number, retries: number): string {
  return formatNumber(attempts / (attempts - retries));
}

/** The share of each minute; a minute without ended tasks has none. */
function rateSeries({ succeeded, deadLetters }: MinuteCounts): readonly (number | null)[] {
  return succeeded.map((good, minute) => {
    const ended = good + (deadLetters[minute] ?? 0);
    return ended === 0 ? null : good / ended;
  });
}

/** It is sampled once per minute, so the current minute may lack it. */
function lastAge(ages: readonly number[]): number {
  return ages.at(-1) || (ages.at(-2) ?? 0);
}

function ageText(ms: number): string {
  return ms === 0 ? "none" : roundDuration(ms);
}

interface HoldGroup {
  /** The guard, as the API names it. */
  readonly by: string;
  readonly destinations: readonly string[];
  /** Waiting tasks of these destinations. */
  readonly waiting: number;
  /** When the first of these holds began; undefined: not known. */
  readonly sinceAt: number | undefined;
}

interface Hold {
  readonly by: string;
  readonly sinceAt: number | undefined;
}

/** What is held now, by guard. The guard that holds the most waiting tasks comes first. */
export function holdGroups(
  destinations: readonly DestinationView[],
  now: number,
): readonly HoldGroup[] {
  const groups = new Map<string, HoldGroup>();
  for (const destination of destinations) {
    const waiting = destination.tasks["PENDING"] ?? 0;
    if (waiting === 0) continue;
    for (const { by, sinceAt } of holdsOf(destination, now)) {
      const group = groups.get(by);
      groups.set(by, {
        by,
        destinations: [...(group?.destinations ?? []), destination.name],
        waiting: (group?.waiting ?? 0) + waiting,
        sinceAt: earlier(group?.sinceAt, sinceAt),
      });
    }
  }
  return [...groups.values()].sort((one, other) => other.waiting - one.waiting);
}

/** Each guard once. The row knows pauses, gates and circuits of the whole fleet. */
function holdsOf(destination: DestinationView, now: number): readonly Hold[] {
  const { held, pausedAt, gateUntil, breakerState, openUntil } = destination;
  const found = new Map<string, number | undefined>();
  if (pausedAt !== null) found.set("pause", pausedAt);
  if (breakerState !== "CLOSED" && openUntil > now) found.set("circuit-open", undefined);
  if (gateUntil > now) found.set("retry-after", undefined);
  for (const { by, sinceAt } of held) found.set(by, earlier(found.get(by), sinceAt));
  return [...found].map(([by, sinceAt]) => ({ by, sinceAt }));
}

function earlier(one: number | undefined, other: number | undefined): number | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return Math.min(one, other);
}
