/** Destinations page: all destinations, those in trouble first. */
import { formatInteger } from "@redrive/core";
import { Notice } from "../../components/notice.tsx";
import { EmptyState } from "../parts/empty-state.tsx";
import { PageFrame } from "../parts/page-frame.tsx";
import { tick } from "../parts/times.tsx";
import { serviceUrl } from "../service/client.ts";
import { usePolled } from "../service/use-polled.ts";
import { DestinationTable } from "./destination-table.tsx";
import { changesDestinations, loadDestinations } from "./load-destinations.ts";
import { byTrouble } from "./trouble.ts";

const EVERY_MS = 5000;

export function DestinationsPage() {
  const { data, problem } = usePolled("destinations", loadDestinations, {
    everyMs: EVERY_MS,
    isConcerned: changesDestinations,
  });
  const destinations = data?.destinations ?? [];
  return (
    <PageFrame title="Destinations" problem={problem} isLoaded={data !== undefined}>
      {data?.isComplete === false && (
        <Notice>The first {formatInteger(destinations.length)} destinations by name.</Notice>
      )}
      {destinations.length === 0 ? (
        <EmptyState
          title="There are no destinations yet"
          command={`curl --json '{ "targetUrl": "https://example.com/hook", "destination": "example" }' ${serviceUrl}retry-tasks`}
        >
          A destination appears with its first task. Its guards protect all tasks that go there.
        </EmptyState>
      ) : (
        <DestinationTable destinations={byTrouble(destinations, tick.value)} />
      )}
    </PageFrame>
  );
}
