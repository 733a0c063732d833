/**
 * Destination page: the state of one destination, its last hour, its concurrency limit, pause and
 * resume, its document, and an outage that the service simulates.
 */
import { useSignal } from "@preact/signals";
import { formatCount, formatDuration, formatInteger, formatNumber } from "@redrive/core";
import { Chart, Legend, linearScale, niceMax } from "../components/chart.tsx";
import { Select } from "../components/controls.tsx";
import { Card } from "../components/frames.tsx";
import {
  client,
  type DestinationHistory,
  type DestinationView,
  type LimitChange,
  may,
  type SimulationView,
} from "./parts/client.ts";
import { changesDestinations, latencyText, State, slotsText } from "./parts/destination-table.tsx";
import { DocumentEditor } from "./parts/document-editor.tsx";
import { type Document, destinationKind, readDraftOf } from "./parts/document-kinds.ts";
import { ActionButton } from "./parts/form.tsx";
import { goTo, Link, route } from "./parts/link.tsx";
import { usePolled } from "./parts/live.ts";
import { PageFrame, Tile } from "./parts/page-frame.tsx";
import { SimulatorLink, systemAddress } from "./parts/simulator-links.tsx";
import { statusLabel } from "./parts/status.tsx";
import { roundDuration, tick, When } from "./parts/times.tsx";

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
            {may("admin") && <BreakerButtons destination={data.destination} onDone={reload} />}
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

function BreakerButtons({ destination: { name, breakerState }, onDone }: PauseButtonProps) {
  if (breakerState === "CLOSED") return null;
  return (
    <>
      <ActionButton label="Probe now" act={() => client.probeDestination(name)} onDone={onDone} />
      <ActionButton
        label="Close breaker"
        question="Send to it again, slowly at first, without waiting for a probe?"
        act={() => client.closeBreaker(name)}
        onDone={onDone}
      />
    </>
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

const BREAKERS: Readonly<Record<string, string>> = {
  CLOSED: "closed",
  OPEN: "open",
  HALF_OPEN: "half open",
};

const BUDGETS: Readonly<Record<string, readonly [string, string]>> = {
  open: ["available", "retries may start"],
  empty: ["empty", "retries wait"],
  off: ["off", "retries are not limited"],
};

/** The state of each guard of a destination, with the time it lasts. */
function GuardTiles({ destination }: { readonly destination: DestinationView }) {
  const { breakerState, openUntil, retryBudget, rateUntil, gateUntil, tasks, latency } =
    destination;
  const now = tick.value;
  const left = (untilAt: number) => roundDuration(Math.max(1000, untilAt - now));
  const [budget, budgetNote] = BUDGETS[retryBudget] ?? [retryBudget, ""];
  const isOpen = breakerState !== "CLOSED";
  return (
    <dl class="tiles small">
      <Tile
        label="Breaker"
        value={BREAKERS[breakerState] ?? breakerState}
        isBad={isOpen}
        note={breakerNote(isOpen, openUntil > now ? left(openUntil) : "")}
      />
      <Tile label="Retry budget" value={budget} note={budgetNote} isBad={retryBudget === "empty"} />
      <Tile label="Running" value={slotsText(destination)} note="attempts at once" />
      <Tile
        label="Rate"
        value={rateUntil > now ? "used up" : "available"}
        note={rateUntil > now ? "attempts wait" : "attempts may start"}
      />
      <Tile
        label="Retry-After"
        value={gateUntil > now ? left(gateUntil) : "none"}
        isBad={gateUntil > now}
        note={gateUntil > now ? "until attempts may start" : "it asked for no pause"}
      />
      <Tile
        label="Waiting"
        value={formatInteger(tasks["PENDING"] ?? 0)}
        note={formatCount(tasks["EXHAUSTED"] ?? 0, "dead letter")}
      />
      <Tile
        label="Latency p50"
        value={latencyText(latency?.p50Ms)}
        note={`p99 ${latencyText(latency?.p99Ms)}`}
      />
    </dl>
  );
}

function breakerNote(isOpen: boolean, leftText: string): string {
  if (!isOpen) return "attempts may start";
  return leftText === "" ? "the next task probes it" : `next probe in ${leftText}`;
}

// Limit card: how the concurrency limit changed, drawn over time and in sentences.

const LIMIT_HEIGHT = 110;
const LIMIT_TOP = 8;
const LIMIT_BOTTOM = 22;
const LIMIT_LEFT = 34;
/** Rows before the user asks for all. */
const FEW = 6;

interface LimitCardProps {
  readonly changes: readonly LimitChange[];
  readonly limit: number;
}

function LimitCard({ changes, limit }: LimitCardProps) {
  return (
    <Card title="Concurrency limit" aside={`now ${formatInteger(limit)}`}>
      {changes.length === 0 ? (
        <p class="faint">
          It has not changed since the node that answers was started. It grows while calls succeed,
          and is cut when the target refuses calls for overload.
        </p>
      ) : (
        <>
          <LimitChart changes={changes} />
          <ChangeTable changes={changes} />
        </>
      )}
    </Card>
  );
}

function LimitChart({ changes }: Pick<LimitCardProps, "changes">) {
  const now = tick.value;
  const points = limitLine(changes, now);
  const startAt = points[0]?.at ?? now;
  const max = Math.max(...points.map(({ limit }) => limit));
  const texts = changes.map((change) => `${change.from} to ${change.to}: ${limitReason(change)}`);
  return (
    <Chart title="Concurrency limit over time" description={texts.join(" ")} height={LIMIT_HEIGHT}>
      {(width) => {
        const x = linearScale([startAt, Math.max(now, startAt + 1000)], [LIMIT_LEFT, width - 4]);
        const y = linearScale([0, niceMax(max, 2)], [LIMIT_HEIGHT - LIMIT_BOTTOM, LIMIT_TOP]);
        const line = points.map(({ at, limit }) => `${x(at).toFixed(1)},${y(limit).toFixed(1)}`);
        return (
          <>
            {y.ticks(2).map((value) => (
              <g key={value}>
                <line class="rule" x1={LIMIT_LEFT} x2={width} y1={y(value)} y2={y(value)} />
                <text class="tick end" x={LIMIT_LEFT - 6} y={y(value) + 4}>
                  {formatInteger(value)}
                </text>
              </g>
            ))}
            <polyline class="stroke" points={line.join(" ")} />
            <text class="tick" x={LIMIT_LEFT} y={LIMIT_HEIGHT - 4}>
              {roundDuration(now - startAt)} ago
            </text>
            <text class="tick end" x={width - 4} y={LIMIT_HEIGHT - 4}>
              now
            </text>
          </>
        );
      }}
    </Chart>
  );
}

function ChangeTable({ changes }: Pick<LimitCardProps, "changes">) {
  const isAll = useSignal(false);
  const newest = changes.toReversed();
  const shown = isAll.value ? newest : newest.slice(0, FEW);
  return (
    <>
      <div class="table-wrap">
        <table class="table rows">
          <caption class="visually-hidden">Changes of the limit, the newest first</caption>
          <thead>
            <tr>
              <th scope="col">When</th>
              <th scope="col">Limit</th>
              <th scope="col">Why</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((change) => (
              <tr key={`${change.sinceAt} ${change.from}`}>
                <td data-label="When">
                  <When at={change.at} />
                </td>
                <td data-label="Limit">
                  {formatInteger(change.from)} → {formatInteger(change.to)}
                </td>
                <td data-label="Why" class="wrap">
                  {limitReason(change)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {newest.length > FEW && (
        <button
          type="button"
          class="button small"
          onClick={() => {
            isAll.value = !isAll.value;
          }}
        >
          {isAll.value ? "Show fewer" : `Show all ${formatCount(newest.length, "change")}`}
        </button>
      )}
    </>
  );
}

/** Why the limit changed. */
export function limitReason({ cause, detail, steps, from, to }: LimitChange): string {
  switch (cause) {
    case "successes":
      return "Calls succeeded while at least half of the limit was in use.";
    case "overload":
      return overloadReason(detail, steps);
    case "latency":
      return to > from
        ? "Calls were about as fast as usual."
        : "Calls took longer than usual, or the target refused many of them.";
    case "ramp-started":
      return "It restarted after a pause, a Retry-After or an open circuit.";
    case "ramp":
      return to > from
        ? "One more slot per success, or after a time in which no call ended, up to the old limit."
        : "Calls failed during the ramp.";
    case "document":
      return "The document changed.";
  }
}

function overloadReason(detail: string | null, steps: number): string {
  const times = steps === 1 ? "once" : `${steps} times`;
  if (detail === "timeout") return `Calls timed out (cut ${times}).`;
  return detail === null
    ? `The target refused calls for overload (cut ${times}).`
    : `The target refused calls for overload: ${detail} (cut ${times}).`;
}

interface LimitPoint {
  readonly at: number;
  readonly limit: number;
}

/** The corners of the line, the oldest first; it ends now. A change over several steps is a slope. */
export function limitLine(changes: readonly LimitChange[], now: number): readonly LimitPoint[] {
  const points = changes.flatMap(({ sinceAt, at, from, to }) => [
    { at: sinceAt, limit: from },
    { at, limit: to },
  ]);
  const last = points.at(-1);
  return last === undefined ? [] : [...points, { at: Math.max(now, last.at), limit: last.limit }];
}

// Attempts chart: the attempts of the last hour, one column per minute, failed ones on top.

const ATTEMPTS_HEIGHT = 120;
const ATTEMPTS_TOP = 8;
const ATTEMPTS_BOTTOM = 22;
const ATTEMPTS_LEFT = 44;
const ATTEMPTS_GAP = 1;

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });

function AttemptsCard({ history }: { readonly history: DestinationHistory }) {
  const { attempts, failed } = history.counts;
  const all = sumOf(attempts);
  return (
    <Card title="Attempts of the last hour" aside="per minute, on the node that answers">
      {all === 0 ? (
        <p class="faint">No attempt in the last hour.</p>
      ) : (
        <>
          <Columns history={history} />
          <Legend
            entries={[
              { mark: "column good", label: `${formatInteger(all - sumOf(failed))} succeeded` },
              { mark: "column bad", label: `${formatInteger(sumOf(failed))} failed` },
            ]}
          />
        </>
      )}
    </Card>
  );
}

function Columns({ history }: { readonly history: DestinationHistory }) {
  const { counts, firstMinuteAt, minuteMs } = history;
  const { attempts, failed } = counts;
  const top = niceMax(Math.max(...attempts), 2);
  const description = `${formatInteger(sumOf(attempts))} attempts, ${formatInteger(sumOf(failed))} failed.`;
  return (
    <Chart title="Attempts of the last hour" description={description} height={ATTEMPTS_HEIGHT}>
      {(width) => {
        const step = (width - ATTEMPTS_LEFT) / attempts.length;
        const y = linearScale([0, top], [ATTEMPTS_HEIGHT - ATTEMPTS_BOTTOM, ATTEMPTS_TOP]);
        return (
          <>
            {y.ticks(2).map((value) => (
              <g key={value}>
                <line class="rule" x1={ATTEMPTS_LEFT} x2={width} y1={y(value)} y2={y(value)} />
                <text class="tick end" x={ATTEMPTS_LEFT - 6} y={y(value) + 4}>
                  {formatInteger(value)}
                </text>
              </g>
            ))}
            {attempts.map((count, minute) => {
              const bad = Math.min(count, failed[minute] ?? 0);
              const at = CLOCK.format(firstMinuteAt + minute * minuteMs);
              const x = ATTEMPTS_LEFT + minute * step;
              const column = (name: string, from: number, to: number) => (
                <rect
                  class={`column ${name}`}
                  x={x}
                  width={Math.max(1, step - ATTEMPTS_GAP)}
                  y={y(to)}
                  height={Math.max(0, y(from) - y(to))}
                />
              );
              return (
                <g key={minute}>
                  <title>{`${at}: ${count} attempts, ${bad} failed`}</title>
                  {count > bad && column("good", 0, count - bad)}
                  {bad > 0 && column("bad", count - bad, count)}
                </g>
              );
            })}
            <text class="tick" x={ATTEMPTS_LEFT} y={ATTEMPTS_HEIGHT - 4}>
              {CLOCK.format(firstMinuteAt)}
            </text>
            <text class="tick end" x={width} y={ATTEMPTS_HEIGHT - 4}>
              now
            </text>
          </>
        );
      }}
    </Chart>
  );
}

function sumOf(values: readonly number[]): number {
  return values.reduce((total, each) => total + each, 0);
}

// Outage card: the service simulates an outage of the destination, as it has measured it.

const OUTAGES_MS = [30_000, 60_000, 600_000, 3_600_000];
const FIRST_OUTAGE_MS = 60_000;

function OutageCard({ name }: { readonly name: string }) {
  const outageMs = useSignal(FIRST_OUTAGE_MS);
  const result = useSignal<SimulationView | undefined>(undefined);
  const simulate = async () => {
    result.value = undefined;
    result.value = await simulateOutage(name, outageMs.value);
  };
  const options = OUTAGES_MS.map((ms) => ({ value: String(ms), label: formatDuration(ms) }));
  return (
    <Card title="What would an outage do?" aside="simulated with what was measured here">
      <div class="filters">
        <Select
          label="Outage"
          value={String(outageMs.value)}
          groups={[{ label: "Length", options }]}
          onChange={(value) => {
            outageMs.value = Number(value);
          }}
        />
        <ActionButton label="Simulate" act={simulate} />
      </div>
      {result.value !== undefined && <Result view={result.value} />}
    </Card>
  );
}

function Result({ view }: { readonly view: SimulationView }) {
  const { report, inputs } = view;
  return (
    <div aria-live="polite">
      <p class="sentence">{String(report["verdict"])}</p>
      {inputs !== null && (
        <>
          <p>Measured: {inputsText(inputs)}</p>
          <ul class="plain-list faint">
            {inputs.notes.map((note) => (
              <li key={note}>{note}</li>
            ))}
          </ul>
        </>
      )}
      <p>
        <a class="button" href={runAddress(view)}>
          Open this run in the simulator
        </a>
      </p>
    </div>
  );
}

async function simulateOutage(destination: string, outageMs: number): Promise<SimulationView> {
  try {
    return await client.simulate({ destination, outageMs });
  } catch (error) {
    if ((error as { readonly code?: string }).code !== "NOT_MEASURED") throw error;
    const text =
      "The service has measured no calls here in the last minutes. Open in the simulator, above, starts with assumed figures.";
    throw new Error(text, { cause: error });
  }
}

type Inputs = NonNullable<SimulationView["inputs"]>;

/** For example "8.3 calls per second in 7 minutes, p50 40 ms, p99 400 ms, 120 tasks wait." */
export function inputsText({ ratePerSecond, measuredMinutes, latency, waiting }: Inputs): string {
  const over = measuredMinutes === 1 ? "1 minute" : `${formatInteger(measuredMinutes)} minutes`;
  const parts = [
    `${formatNumber(ratePerSecond)} calls per second in ${over}`,
    `p50 ${formatDuration(Math.round(latency.p50Ms))}`,
    `p99 ${formatDuration(Math.round(latency.p99Ms))}`,
    `${formatInteger(waiting)} ${waiting === 1 ? "task waits" : "tasks wait"}`,
  ];
  return `${parts.join(", ")}.`;
}

/** The part of the address after `#`, which opens the run in the simulator beside this page. */
export function runAddress({ pageUrl }: Pick<SimulationView, "pageUrl">): string {
  return `./simulator${pageUrl.slice(pageUrl.indexOf("#"))}`;
}
