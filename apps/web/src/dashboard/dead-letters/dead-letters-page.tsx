/** Dead letters page: groups by destination and reason, and the wizard that redrives one group. */
import { formatInteger } from "@redrive/core";
import { Notice } from "../../components/notice.tsx";
import { EmptyState } from "../parts/empty-state.tsx";
import { PageFrame } from "../parts/page-frame.tsx";
import { When } from "../parts/times.tsx";
import { Link } from "../routing/link.tsx";
import { route } from "../routing/route.ts";
import { client, type DeadLetterGroup } from "../service/client.ts";
import { may } from "../service/session.ts";
import { usePolled } from "../service/use-polled.ts";
import { RedriveWizard } from "./redrive-wizard.tsx";

/** Grouping reads every dead letter, so it is not repeated often. */
const EVERY_MS = 15_000;

export function DeadLettersPage() {
  const { query } = route.value;
  const { data, problem } = usePolled("dead letters", () => client.groupDeadLetters(), {
    everyMs: EVERY_MS,
    isConcerned: ({ type }) => type === "task.exhausted",
  });
  const groups = data?.groups ?? [];
  const chosen = groups.find(
    ({ destination, reason }) =>
      destination === query["destination"] && reason === (query["reason"] ?? null),
  );
  return (
    <PageFrame title="Dead letters" problem={problem} isLoaded={data !== undefined}>
      {data?.complete === false && (
        <Notice>There are more dead letters than were counted here.</Notice>
      )}
      {chosen !== undefined && (
        <RedriveWizard key={`${chosen.destination} ${chosen.reason}`} group={chosen} />
      )}
      {groups.length === 0 ? (
        <EmptyState title="There are no dead letters">
          A task becomes a dead letter when its attempts or its time run out, or when the target
          refuses it. It then waits here until you redrive it.
        </EmptyState>
      ) : (
        <GroupTable groups={groups} />
      )}
    </PageFrame>
  );
}

function GroupTable({ groups }: { readonly groups: readonly DeadLetterGroup[] }) {
  return (
    <div class="table-wrap">
      <table class="table rows">
        <caption class="visually-hidden">Dead letters by destination and reason</caption>
        <thead>
          <tr>
            <th scope="col">Destination</th>
            <th scope="col">Reason</th>
            <th scope="col">Dead letters</th>
            <th scope="col">First</th>
            <th scope="col">Last</th>
            <th scope="col">Actions</th>
          </tr>
        </thead>
        <tbody>
          {groups.map((group) => (
            <GroupRow key={`${group.destination} ${group.reason}`} group={group} />
          ))}
        </tbody>
      </table>
      <p class="faint">The counts include dead letters that were redriven already.</p>
    </div>
  );
}

function GroupRow({ group }: { readonly group: DeadLetterGroup }) {
  const { destination, reason, count, firstFinishedAt, lastFinishedAt } = group;
  const query = { destination, ...(reason !== null && { reason }) };
  return (
    <tr>
      <th scope="row" data-label="Destination" class="wrap">
        <Link page="destination" query={{ name: destination }}>
          <bdi>{destination}</bdi>
        </Link>
      </th>
      <td data-label="Reason">{reason ?? "unknown"}</td>
      <td data-label="Dead letters">
        <Link page="tasks" query={{ ...query, status: "EXHAUSTED" }}>
          {formatInteger(count)}
        </Link>
      </td>
      <td data-label="First">
        <When at={firstFinishedAt} />
      </td>
      <td data-label="Last">
        <When at={lastFinishedAt} />
      </td>
      <td data-label="Actions">
        {may("dlq:redrive") && reason !== null && (
          <Link page="dead-letters" query={query} class="button">
            Redrive…
          </Link>
        )}
      </td>
    </tr>
  );
}
