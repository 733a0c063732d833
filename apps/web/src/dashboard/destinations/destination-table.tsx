/** Destination table: the state of each destination, with the reason for trouble. */
import { formatDuration, formatInteger } from "@redrive/core";
import { Due, tick } from "../parts/times.tsx";
import { Link } from "../routing/link.tsx";
import type { DestinationView } from "../service/client.ts";
import { troubleOf } from "./trouble.ts";

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
