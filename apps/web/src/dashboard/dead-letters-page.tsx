/** Dead letters page: groups by destination and reason, and the wizard that redrives one group. */
import { explainReason, formatCount, formatInteger, type StopReason } from "@redrive/core";
import { Toggle } from "../components/controls.tsx";
import { Notice } from "../components/frames.tsx";
import { client, type DeadLetterGroup, may } from "./parts/client.ts";
import { None } from "./parts/destination-table.tsx";
import { goTo, Link, type Query, route } from "./parts/link.tsx";
import { usePolled } from "./parts/live.ts";
import { EmptyState, PageFrame } from "./parts/page-frame.tsx";
import { frozenFilter, RedriveWizard } from "./parts/redrive-wizard.tsx";
import { When } from "./parts/times.tsx";

/** Grouping reads every dead letter, so it is not repeated often. */
const EVERY_MS = 15_000;
const EVENT_DELAY_MS = 5000;

export function DeadLettersPage() {
  const { query } = route.value;
  const { data, problem } = usePolled("dead letters", () => client.groupDeadLetters(), {
    everyMs: EVERY_MS,
    eventDelayMs: EVENT_DELAY_MS,
    isConcerned: ({ type }) => type === "task.exhausted",
  });
  const groups = data?.groups ?? [];
  const isAll = query["all"] === "yes";
  const shown = isAll ? groups : groups.filter(({ count, redriven }) => count > redriven);
  return (
    <PageFrame title="Dead letters" problem={problem} isLoaded={data !== undefined}>
      {data?.complete === false && (
        <Notice>There are more dead letters than were counted here.</Notice>
      )}
      <ChosenGroup groups={groups} query={query} />
      {groups.length === 0 ? (
        <EmptyState title="There are no dead letters" command="redrive dlq ls --group">
          A task becomes a dead letter when its attempts or its time run out, or when the target
          refuses it. It then waits here until you redrive it.
        </EmptyState>
      ) : (
        <>
          <Summary groups={groups} isAll={isAll} />
          {shown.length > 0 && <GroupTable groups={shown} isAll={isAll} />}
        </>
      )}
    </PageFrame>
  );
}

interface ChosenGroupProps {
  readonly groups: readonly DeadLetterGroup[];
  readonly query: Query;
}

function ChosenGroup({ groups, query }: ChosenGroupProps) {
  const chosen = groups.find(
    ({ destination, reason }) =>
      destination === query["destination"] && reason === (query["reason"] ?? null),
  );
  const filter = chosen && frozenFilter(chosen);
  if (chosen === undefined || filter === undefined) return null;
  const { destination, reason } = chosen;
  return (
    <RedriveWizard
      key={`${destination} ${reason}`}
      set={{ title: titleOf(chosen), filter }}
      onClose={() => goTo("dead-letters")}
    />
  );
}

function titleOf({ destination, reason }: DeadLetterGroup): string {
  return reason === null ? destination : `${destination}: ${explainReason(reason as StopReason)}`;
}

interface SummaryProps {
  readonly groups: readonly DeadLetterGroup[];
  readonly isAll: boolean;
}

function Summary({ groups, isAll }: SummaryProps) {
  const all = groups.reduce((sum, { count }) => sum + count, 0);
  const redriven = groups.reduce((sum, group) => sum + group.redriven, 0);
  return (
    <div class="list-head">
      <p class="count">
        <strong>{formatCount(all, "dead letter")}</strong>
        {redriven > 0 && <span class="faint">, {formatInteger(redriven)} of them redriven</span>}
      </p>
      <Toggle
        checked={isAll}
        onChange={(checked) => goTo("dead-letters", { all: checked ? "yes" : "" })}
      >
        Show redriven ones
      </Toggle>
    </div>
  );
}

function GroupTable({ groups, isAll }: SummaryProps) {
  return (
    <div class="table-wrap">
      <table class="table rows">
        <caption class="visually-hidden">Dead letters by destination and reason</caption>
        <thead>
          <tr>
            <th scope="col">Destination</th>
            <th scope="col">Reason</th>
            <th scope="col" class="number">
              Dead letters
            </th>
            {isAll && (
              <th scope="col" class="number">
                Redriven
              </th>
            )}
            <th scope="col" class="number">
              First
            </th>
            <th scope="col" class="number">
              Last
            </th>
            <th scope="col">
              <span class="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {groups.map((group) => (
            <GroupRow key={`${group.destination} ${group.reason}`} group={group} isAll={isAll} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface GroupRowProps {
  readonly group: DeadLetterGroup;
  readonly isAll: boolean;
}

function GroupRow({ group, isAll }: GroupRowProps) {
  const { destination, reason, count, redriven, firstFinishedAt, lastFinishedAt } = group;
  const query = { destination, ...(reason !== null && { reason }) };
  const tasks = { ...query, status: "EXHAUSTED" };
  const open = count - redriven;
  return (
    <tr>
      <th scope="row" data-label="Destination" class="name">
        <Link page="destination" query={{ name: destination }}>
          <bdi>{destination}</bdi>
        </Link>
      </th>
      <td data-label="Reason" class="wrap">
        <span>
          <span class="reason">{reason ?? "unknown"}</span>
          <span class="state-text">{reasonText(reason)}</span>
        </span>
      </td>
      <td data-label="Dead letters" class="number">
        {open === 0 ? (
          <None />
        ) : (
          <Link page="tasks" query={{ ...tasks, redriven: "false" }}>
            {formatInteger(open)}
          </Link>
        )}
      </td>
      {isAll && (
        <td data-label="Redriven" class="number">
          {redriven === 0 ? (
            <None />
          ) : (
            <Link page="tasks" query={{ ...tasks, redriven: "true" }}>
              {formatInteger(redriven)}
            </Link>
          )}
        </td>
      )}
      <td data-label="First" class="number">
        <When at={firstFinishedAt} />
      </td>
      <td data-label="Last" class="number">
        <When at={lastFinishedAt} />
      </td>
      <td data-label="Actions" class="row-actions">
        {may("dlq:redrive") && reason !== null && open > 0 && (
          <Link page="dead-letters" query={query} class="button small">
            Redrive…
          </Link>
        )}
      </td>
    </tr>
  );
}

/** Core explains the reasons that it knows. */
function reasonText(reason: string | null): string {
  if (reason === null) return "";
  // A newer version of the service may have more reasons.
  return explainReason(reason as StopReason) ?? "";
}
