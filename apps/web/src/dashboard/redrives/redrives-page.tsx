/** Redrives page: all redrives with their progress, and the actions on one that has not ended. */
import { formatInteger } from "@redrive/core";
import { Card } from "../../components/card.tsx";
import { Notice } from "../../components/notice.tsx";
import { ActionButton } from "../parts/action-button.tsx";
import { EmptyState } from "../parts/empty-state.tsx";
import { PageFrame } from "../parts/page-frame.tsx";
import { Status } from "../parts/status.tsx";
import { When } from "../parts/times.tsx";
import { Link } from "../routing/link.tsx";
import { route } from "../routing/route.ts";
import { client, type RedriveView } from "../service/client.ts";
import { may } from "../service/session.ts";
import { usePolled } from "../service/use-polled.ts";

const EVERY_MS = 1500;

export function RedrivesPage() {
  const { data, problem, reload } = usePolled("redrives", () => client.listRedrives(), {
    everyMs: EVERY_MS,
  });
  const redrives = data?.redrives ?? [];
  const chosen = redrives.find(({ redriveId }) => redriveId === route.value.query["id"]);
  return (
    <PageFrame title="Redrives" problem={problem} isLoaded={data !== undefined}>
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
        <RedriveTable redrives={redrives} />
      )}
    </PageFrame>
  );
}

interface ProgressProps {
  readonly redrive: RedriveView;
  onChanged(): void;
}

function Progress({ redrive, onChanged }: ProgressProps) {
  const { redriveId, status, total, redriven, skipped, error, skips, ratePerSecond } = redrive;
  const done = redriven + skipped;
  return (
    <Card
      title={`Redrive ${redriveId}`}
      aside={<RedriveActions redrive={redrive} onChanged={onChanged} />}
    >
      <p class="sentence">
        <Status status={status} /> {formatInteger(redriven)} of {formatInteger(total)} redriven
        {skipped > 0 && `, ${formatInteger(skipped)} skipped`}, at {ratePerSecond} per second.
      </p>
      <progress class="progress" max={Math.max(1, total)} value={total === 0 ? 1 : done}>
        {done} of {total}
      </progress>
      {error !== null && <Notice tone="warn">{error}</Notice>}
      {skips.map(({ reason, count, detail }) => (
        <p key={reason} class="faint">
          {formatInteger(count)} skipped: {detail}
        </p>
      ))}
      <p>
        <Link page="tasks" query={{}}>
          See the newest tasks
        </Link>
      </p>
    </Card>
  );
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

function RedriveTable({ redrives }: { readonly redrives: readonly RedriveView[] }) {
  return (
    <div class="table-wrap">
      <table class="table rows">
        <caption class="visually-hidden">Redrives, newest first</caption>
        <thead>
          <tr>
            <th scope="col">Redrive</th>
            <th scope="col">Status</th>
            <th scope="col">Redriven</th>
            <th scope="col">Skipped</th>
            <th scope="col">Rate, canary</th>
            <th scope="col">Started</th>
          </tr>
        </thead>
        <tbody>
          {redrives.map((redrive) => (
            <tr key={redrive.redriveId}>
              <th scope="row" data-label="Redrive">
                <Link page="redrives" query={{ id: redrive.redriveId }} class="id">
                  {redrive.redriveId}
                </Link>
              </th>
              <td data-label="Status">
                <Status status={redrive.status} />
              </td>
              <td data-label="Redriven">
                {formatInteger(redrive.redriven)} of {formatInteger(redrive.total)}
              </td>
              <td data-label="Skipped">{formatInteger(redrive.skipped)}</td>
              <td data-label="Rate, canary">
                {redrive.ratePerSecond} per second, {redrive.canary}
              </td>
              <td data-label="Started">
                <When at={redrive.createdAt} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
