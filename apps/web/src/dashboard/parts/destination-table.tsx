/** Destination table: the destinations, read up to a bound, and the reason for trouble of each. */
import { formatCount, formatDuration, formatInteger } from "@redrive/core";
import { client, type DestinationView } from "./client.ts";
import { Link } from "./link.tsx";
import { Due, roundDuration, tick } from "./times.tsx";

export function DestinationTable({
  destinations,
}: {
  readonly destinations: readonly DestinationView[];
}) {
  return (
    <div class="table-wrap">
      <table class="table rows">
        <caption class="visually-hidden">Destinations, those in trouble first</caption>
        <thead>
          <tr>
            <th scope="col">Destination</th>
            <th scope="col">State</th>
            <th scope="col" class="number">
              Waiting
            </th>
            <th scope="col" class="number">
              Running
            </th>
            <th scope="col" class="number">
              Latency p50
            </th>
            <th scope="col" class="number">
              p99
            </th>
            <th scope="col" class="number">
              Next due
            </th>
            <th scope="col" class="number">
              Dead letters
            </th>
          </tr>
        </thead>
        <tbody>
          {destinations.map((destination) => (
            <DestinationRow key={destination.name} destination={destination} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function DestinationRow({ destination }: { readonly destination: DestinationView }) {
  const { name, nextDueAt, tasks, latency } = destination;
  const dead = tasks["EXHAUSTED"] ?? 0;
  return (
    <tr>
      <th scope="row" data-label="Destination" class="name">
        <Link page="destination" query={{ name }}>
          <bdi>{name}</bdi>
        </Link>
      </th>
      <td data-label="State" class="wrap">
        <State destination={destination} />
      </td>
      <td data-label="Waiting" class="number">
        {formatInteger(tasks["PENDING"] ?? 0)}
      </td>
      <td data-label="Running" class="number">
        {slotsText(destination)}
      </td>
      <td data-label="Latency p50" class="number">
        {latencyText(latency?.p50Ms)}
      </td>
      <td data-label="Latency p99" class="number">
        {latencyText(latency?.p99Ms)}
      </td>
      <td data-label="Next due" class="number">
        {nextDueAt === null ? <None /> : <Due at={nextDueAt} />}
      </td>
      <td data-label="Dead letters" class="number">
        {dead === 0 ? (
          <None />
        ) : (
          <Link page="tasks" query={{ status: "EXHAUSTED", destination: name }}>
            {formatInteger(dead)}
          </Link>
        )}
      </td>
    </tr>
  );
}

/** An empty cell. */
export function None() {
  return <span class="faint">none</span>;
}

export function State({ destination }: { readonly destination: DestinationView }) {
  const { label, tone, sentences } = troubleOf(destination, tick.value);
  if (label === undefined) return <span class="status good">healthy</span>;
  return (
    <span class="state">
      <span class={`status ${tone === "busy" ? "plain" : tone}`}>{label}</span>{" "}
      <span class="state-text">{sentences.join(" ")}</span>
    </span>
  );
}

export function slotsText({ concurrency, tasks }: DestinationView): string {
  const running = formatInteger(concurrency?.inFlight ?? tasks["IN_FLIGHT"] ?? 0);
  return concurrency === null ? running : `${running} of ${formatInteger(concurrency.limit)}`;
}

export function latencyText(ms: number | undefined): string {
  return ms === undefined ? "–" : formatDuration(Math.round(ms));
}

// Trouble: what keeps a destination from getting its attempts, in a sentence, worst first.

/** `busy`: a limit works as intended, and needs nobody. */
type Tone = "bad" | "warn" | "busy";

interface Trouble {
  /** Higher is worse. 0: none, or it is only busy. */
  readonly severity: number;
  /** The worst finding in a word or two, and its tone; undefined: none. */
  readonly label: string | undefined;
  readonly tone: Tone | undefined;
  /** What holds attempts now, and what has failed. */
  readonly sentences: readonly string[];
}

interface Rule {
  readonly label: string;
  readonly tone: Tone;
  sentence(destination: DestinationView, now: number): string | undefined;
}

/** Rounded up to a second, so that it never says "0 s" while something is still shut. */
function inTime(untilAt: number, now: number): string {
  return roundDuration(Math.ceil((untilAt - now) / 1000) * 1000);
}

/** Attempts may start this late without being worth a sentence. */
const LATE_MS = 5000;

/** Worst first. */
const RULES: readonly Rule[] = [
  {
    label: "unreadable",
    tone: "bad",
    sentence: ({ unreadable }) =>
      unreadable === null
        ? undefined
        : `This version cannot read its document (${unreadable}), so its tasks are held.`,
  },
  {
    label: "open circuit",
    tone: "bad",
    sentence({ breakerState, openUntil }, now) {
      if (breakerState !== "OPEN") return undefined;
      return openUntil > now
        ? `Its circuit is open; the next probe is in ${inTime(openUntil, now)}.`
        : "Its circuit is open; the next task probes it.";
    },
  },
  {
    label: "failing",
    tone: "bad",
    sentence: ({ recent }) =>
      recent.failing
        ? `${formatInteger(recent.failed)} of ${formatCount(recent.attempts, "attempt")} failed in the last five minutes.`
        : undefined,
  },
  {
    label: "half open",
    tone: "warn",
    sentence: ({ breakerState }) =>
      breakerState === "HALF_OPEN" ? "Its circuit is half open: probes decide." : undefined,
  },
  {
    label: "Retry-After",
    tone: "warn",
    sentence: ({ gateUntil }, now) =>
      gateUntil > now
        ? `It asked for a pause (Retry-After): no attempt for ${inTime(gateUntil, now)}.`
        : undefined,
  },
  {
    label: "paused",
    tone: "warn",
    sentence: ({ pausedAt }, now) =>
      pausedAt === null ? undefined : `Somebody paused it ${inTime(now, pausedAt)} ago.`,
  },
  {
    label: "retry budget empty",
    tone: "warn",
    sentence: ({ retryBudget }) =>
      retryBudget === "empty" ? "Its retry budget is empty: retries wait." : undefined,
  },
  {
    label: "disabled targets",
    tone: "warn",
    sentence: ({ disabledTargets: { length } }) =>
      length === 0
        ? undefined
        : `${formatCount(length, "target")} responded 410 Gone and ${length === 1 ? "is" : "are"} disabled.`,
  },
  {
    label: "late",
    tone: "warn",
    sentence: ({ nextDueAt, held }, now) =>
      nextDueAt !== null && now - nextDueAt > LATE_MS && held.length === 0
        ? `Its first waiting task is ${inTime(now, nextDueAt)} overdue.`
        : undefined,
  },
  {
    label: "all slots in use",
    tone: "busy",
    sentence: ({ concurrency, backlog }) =>
      concurrency !== null &&
      concurrency.inFlight >= concurrency.limit &&
      backlog > concurrency.limit
        ? `All ${formatInteger(concurrency.limit)} slots are in use.`
        : undefined,
  },
  {
    label: "at its rate",
    tone: "busy",
    sentence: ({ rateUntil }, now) =>
      rateUntil > now ? "Its rate limit is reached: attempts wait for tokens." : undefined,
  },
];

export function troubleOf(destination: DestinationView, now: number): Trouble {
  const found = RULES.map((rule) => rule.sentence(destination, now));
  const at = found.findIndex((sentence) => sentence !== undefined);
  const worst = RULES[at];
  return {
    severity: worst === undefined || worst.tone === "busy" ? 0 : RULES.length - at,
    label: worst?.label,
    tone: worst?.tone,
    sentences: found.filter((sentence) => sentence !== undefined),
  };
}

/** Destinations in trouble first, then those with the largest backlog. */
export function byTrouble(
  destinations: readonly DestinationView[],
  now: number,
): readonly DestinationView[] {
  const severity = new Map(destinations.map((one) => [one, troubleOf(one, now).severity]));
  return destinations.toSorted(
    (one, other) =>
      (severity.get(other) ?? 0) - (severity.get(one) ?? 0) ||
      other.backlog - one.backlog ||
      one.name.localeCompare(other.name),
  );
}

/** Tasks by status over all destinations. */
export function totalTasks(
  destinations: readonly DestinationView[],
): Readonly<Record<string, number>> {
  const totals: Record<string, number> = {};
  for (const { tasks } of destinations) {
    for (const [status, count] of Object.entries(tasks)) {
      totals[status] = (totals[status] ?? 0) + count;
    }
  }
  return totals;
}

export interface Destinations {
  readonly destinations: readonly DestinationView[];
  /** False: there are more than were read. */
  readonly isComplete: boolean;
}

const PAGE = 250;
/** A page of the API may be short, so this reads at most 2000 destinations. */
const MAX_PAGES = 8;

/** Reads the list of destinations, up to a bound. */
export async function loadDestinations(): Promise<Destinations> {
  let { destinations, cursor } = await client.listDestinations({ limit: PAGE });
  for (let n = 1; n < MAX_PAGES && cursor !== null; n++) {
    const next = await client.listDestinations({ limit: PAGE, cursor });
    destinations = [...destinations, ...next.destinations];
    cursor = next.cursor;
  }
  return { destinations, isComplete: cursor === null };
}

/** Whether an event may change the state of a destination. Attempts do so all the time. */
export function changesDestinations({ type }: { readonly type: string }): boolean {
  return !type.startsWith("attempt.started");
}
