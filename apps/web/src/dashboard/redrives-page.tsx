/** Redrives page: all redrives with their progress, and the actions on one that has not ended. */
import { formatCount, formatInteger, formatNumber } from "@redrive/core";
import { Card, Notice } from "../components/frames.tsx";
import { client, may, type RedriveView } from "./parts/client.ts";
import { ActionButton } from "./parts/form.tsx";
import { Link, route } from "./parts/link.tsx";
import { usePolled } from "./parts/live.ts";
import { EmptyState, PageFrame } from "./parts/page-frame.tsx";
import { Status } from "./parts/status.tsx";
import { When } from "./parts/times.tsx";
import { setText, visibleText } from "./parts/visible-text.ts";

const EVERY_MS = 1500;

export function RedrivesPage() {
  const { data, problem, reload } = usePolled("redrives", () => client.listRedrives(), {
    everyMs: EVERY_MS,
  });
  const redrives = data?.redrives ?? [];
  const id = route.value.query["id"];
  const chosen =
    id === undefined
      ? redrives.find(({ status }) => status === "RUNNING" || status === "PAUSED")
      : redrives.find(({ redriveId }) => redriveId === id);
  return (
    <PageFrame title="Redrives" problem={problem} isLoaded={data !== undefined}>
      {id !== undefined && chosen === undefined && data !== undefined && (
        <Notice tone="warn">There is no redrive {visibleText(id)}.</Notice>
      )}
      {chosen !== undefined && <Progress redrive={chosen} onChanged={reload} />}
      {redrives.length === 0 ? (
        <EmptyState
          title="There are no redrives yet"
          command="redrive dlq redrive --destination example --dry-run"
        >
          A redrive sends dead letters again, as new tasks. Start one on the page{" "}
          <Link page="dead-letters">Dead letters</Link>.
        </EmptyState>
      ) : (
        <RedriveTable redrives={redrives} shown={chosen?.redriveId} />
      )}
    </PageFrame>
  );
}

interface ProgressProps {
  readonly redrive: RedriveView;
  onChanged(): void;
}

function Progress({ redrive, onChanged }: ProgressProps) {
  const { status, total, redriven, skipped, error, skips, ratePerSecond, waitsFor } = redrive;
  const done = redriven + skipped;
  return (
    <Card
      title={`Redrive of ${setText(redrive)}`}
      aside={<RedriveActions redrive={redrive} onChanged={onChanged} />}
    >
      <p class="sentence">
        <Status status={status} /> {formatInteger(redriven)} of {formatInteger(total)} redriven
        {skipped > 0 && `, ${formatInteger(skipped)} skipped`}, at {formatNumber(ratePerSecond)} per
        second.
      </p>
      <progress
        class="progress"
        aria-label="Progress of the redrive"
        max={Math.max(1, total)}
        value={total === 0 ? 1 : done}
      >
        {done} of {total}
      </progress>
      {waitsFor !== null && <p>It waits for {visibleText(waitsFor)}.</p>}
      {error !== null && <Notice tone="warn">{visibleText(error)}</Notice>}
      {skips.map(({ reason, count, detail }) => (
        <p key={reason} class="faint">
          {formatInteger(count)} skipped: {visibleText(detail)}
        </p>
      ))}
      <p>
        <Link page="tasks" query={newTasksOf(redrive)}>
          See the newest tasks
        </Link>
      </p>
    </Card>
  );
}

/** The new tasks have the destination of their dead letters, and are created after the start. */
function newTasksOf({ filter, createdAt }: RedriveView): Readonly<Record<string, string>> {
  return { destination: filter?.destination ?? "", createdFrom: String(createdAt) };
}

function RedriveActions({ redrive: { redriveId, status }, onChanged }: ProgressProps) {
  if (!may("dlq:redrive")) return null;
  const canResume = status === "PAUSED" || status === "FAILED";
  return (
    <span class="actions">
      {status === "RUNNING" && (
        <ActionButton
          key="pause"
          label="Pause"
          act={() => client.pauseRedrive(redriveId)}
          onDone={onChanged}
        />
      )}
      {canResume && (
        <ActionButton
          key="resume"
          label="Resume"
          isAccent
          act={() => client.resumeRedrive(redriveId)}
          onDone={onChanged}
        />
      )}
      {(status === "RUNNING" || canResume) && (
        <ActionButton
          key="cancel"
          label="Cancel"
          question="Cancel the rest? Redriven tasks stay redriven."
          act={() => client.cancelRedrive(redriveId)}
          onDone={onChanged}
        />
      )}
    </span>
  );
}

interface RedriveTableProps {
  readonly redrives: readonly RedriveView[];
  readonly shown: string | undefined;
}

function RedriveTable({ redrives, shown }: RedriveTableProps) {
  return (
    <div class="table-wrap">
      <table class="table rows">
        <caption class="visually-hidden">Redrives, newest first</caption>
        <thead>
          <tr>
            <th scope="col">Dead letters</th>
            <th scope="col">Status</th>
            <th scope="col" class="number">
              Redriven
            </th>
            <th scope="col" class="number">
              Skipped
            </th>
            <th scope="col" class="number">
              Rate
            </th>
            <th scope="col" class="number">
              Canary
            </th>
            <th scope="col" class="number">
              Started
            </th>
          </tr>
        </thead>
        <tbody>
          {redrives.map((redrive) => (
            <RedriveRow
              key={redrive.redriveId}
              redrive={redrive}
              isShown={redrive.redriveId === shown}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface RedriveRowProps {
  readonly redrive: RedriveView;
  readonly isShown: boolean;
}

function RedriveRow({ redrive, isShown }: RedriveRowProps) {
  const { redriveId, status, redriven, total, skipped, ratePerSecond, canary, createdAt } = redrive;
  return (
    <tr class={isShown ? "selected" : ""}>
      <th scope="row" data-label="Dead letters" class="name">
        <Link page="redrives" query={{ id: redriveId }} title={redriveId}>
          {setText(redrive)}
        </Link>
      </th>
      <td data-label="Status">
        <Status status={status} />
      </td>
      <td data-label="Redriven" class="number">
        {formatInteger(redriven)} of {formatInteger(total)}
      </td>
      <td data-label="Skipped" class="number">
        {formatInteger(skipped)}
      </td>
      <td data-label="Rate" class="number">
        {formatNumber(ratePerSecond)} per s
      </td>
      <td data-label="Canary" class="number">
        {canary === 0 ? "none" : formatCount(canary, "task")}
      </td>
      <td data-label="Started" class="number">
        <When at={createdAt} />
      </td>
    </tr>
  );
}
