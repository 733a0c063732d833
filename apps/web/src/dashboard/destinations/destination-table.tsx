/** Destination table: the state of each destination, with the reason for trouble. */
import { formatDuration, formatInteger } from "@redrive/core";
import { tick, When } from "../parts/times.tsx";
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
            <th scope="col">Backlog</th>
            <th scope="col">Running</th>
            <th scope="col">Latency p50, p99</th>
            <th scope="col">Next due</th>
            <th scope="col">Dead letters</th>
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
  const { name, backlog, nextDueAt, tasks } = destination;
  const dead = tasks["EXHAUSTED"] ?? 0;
  return (
    <tr>
      <th scope="row" data-label="Destination" class="wrap">
        <Link page="destination" query={{ name }}>
          <bdi>{name}</bdi>
        </Link>
      </th>
      <td data-label="State" class="wrap">
        <State destination={destination} />
      </td>
      <td data-label="Backlog">{formatInteger(backlog)}</td>
      <td data-label="Running">{slotsText(destination)}</td>
      <td data-label="Latency">{latencyText(destination)}</td>
      <td data-label="Next due">{nextDueAt === null ? "none" : <When at={nextDueAt} />}</td>
      <td data-label="Dead letters">
        {dead === 0 ? (
          "none"
        ) : (
          <Link page="tasks" query={{ status: "EXHAUSTED", destination: name }}>
            {formatInteger(dead)}
          </Link>
        )}
      </td>
    </tr>
  );
}

export function State({ destination }: { readonly destination: DestinationView }) {
  const { severity, sentences } = troubleOf(destination, tick.value);
  if (severity === 0) return <span class="status good">healthy</span>;
  return <span class="trouble">{sentences.join(" ")}</span>;
}

export function slotsText({ concurrency, tasks }: DestinationView): string {
  const running = formatInteger(concurrency?.inFlight ?? tasks["IN_FLIGHT"] ?? 0);
  return concurrency === null ? running : `${running} of ${formatInteger(concurrency.limit)}`;
}

export function latencyText({ latency }: DestinationView): string {
  if (latency === null) return "no calls yet";
  const { p50Ms, p99Ms } = latency;
  return `${formatDuration(Math.round(p50Ms))}, ${formatDuration(Math.round(p99Ms))}`;
}
