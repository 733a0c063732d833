/** Destinations page: all destinations, those in trouble first, with a search by name. */
import { formatCount, formatInteger } from "@redrive/core";
import { Notice } from "../components/frames.tsx";
import { createCommand, type DestinationView } from "./parts/client.ts";
import {
  byTrouble,
  changesDestinations,
  DestinationTable,
  loadDestinations,
} from "./parts/destination-table.tsx";
import { TextInput } from "./parts/form.tsx";
import { goTo, route } from "./parts/link.tsx";
import { usePolled } from "./parts/live.ts";
import { EmptyState, PageFrame } from "./parts/page-frame.tsx";
import { tick } from "./parts/times.tsx";

const EVERY_MS = 5000;
/** Reading all destinations costs the service more than one event is worth. */
const EVENT_DELAY_MS = 2000;
/** Rows on the page. */
const MAX_ROWS = 100;

export function DestinationsPage() {
  const { data, problem } = usePolled("destinations", loadDestinations, {
    everyMs: EVERY_MS,
    eventDelayMs: EVENT_DELAY_MS,
    isConcerned: changesDestinations,
  });
  const text = route.value.query["name"] ?? "";
  const all = data?.destinations ?? [];
  return (
    <PageFrame title="Destinations" problem={problem} isLoaded={data !== undefined}>
      {data?.isComplete === false && (
        <Notice>The first {formatInteger(all.length)} destinations by name.</Notice>
      )}
      {all.length === 0 ? (
        <EmptyState
          title="There are no destinations yet"
          command={createCommand('"destination": "example"')}
        >
          A destination appears with its first task. Its guards protect all tasks that go there.
        </EmptyState>
      ) : (
        <Found all={all} text={text} />
      )}
    </PageFrame>
  );
}

interface FoundProps {
  readonly all: readonly DestinationView[];
  readonly text: string;
}

function Found({ all, text }: FoundProps) {
  const wanted = text.toLowerCase();
  const found = all.filter(({ name }) => name.toLowerCase().includes(wanted));
  const shown = byTrouble(found, tick.value).slice(0, MAX_ROWS);
  return (
    <>
      <search class="filters one-line">
        <TextInput
          label="Name"
          value={text}
          placeholder="part of the name"
          focusKey="/"
          onChange={(name) => goTo("destinations", { name })}
        />
        <p class="count" aria-live="polite">
          {formatCount(found.length, "destination")}
          {shown.length < found.length && `, the first ${formatInteger(shown.length)} are shown`}
        </p>
      </search>
      {shown.length === 0 ? (
        <EmptyState title="No destination has this name" />
      ) : (
        <DestinationTable destinations={shown} />
      )}
    </>
  );
}
