/** Redrive wizard: shows which dead letters a redrive takes, asks for its pace, and starts it. */
import { useSignal } from "@preact/signals";
import { formatInteger, statusText } from "@redrive/core";
import { REDRIVE_BOUNDS } from "@redrive/service/client";
import { useEffect } from "preact/hooks";
import { Card } from "../../components/card.tsx";
import { Notice } from "../../components/notice.tsx";
import { Problem } from "../../components/problem.tsx";
import { ActionButton } from "../parts/action-button.tsx";
import { TextInput } from "../parts/text-input.tsx";
import { When } from "../parts/times.tsx";
import { visibleText } from "../parts/visible-text.ts";
import { Link } from "../routing/link.tsx";
import { goTo } from "../routing/route.ts";
import { client, type DeadLetterGroup, problemOf, type TaskView } from "../service/client.ts";
import {
  type FrozenFilter,
  frozenFilter,
  type Pace,
  paceProblem,
  paceSentence,
} from "./redrive-plan.ts";

const SAMPLES = 5;
/** A few first, because most redrives follow a repair that may not have worked. */
const DEFAULT_CANARY = 10;

interface Preview {
  readonly filter: FrozenFilter;
  /** Dead letters that were not redriven yet. */
  readonly total: number;
  readonly samples: readonly TaskView[];
}

async function preview(group: DeadLetterGroup): Promise<Preview | undefined> {
  const filter = frozenFilter(group);
  if (filter === undefined) return undefined;
  const [{ total }, { tasks }] = await Promise.all([
    client.startRedrive({ filter, dryRun: true }),
    client.listDeadLetters({ ...filter, limit: 50 }),
  ]);
  const open = tasks.filter(({ redrivenTo }) => redrivenTo === null);
  return { filter, total, samples: open.slice(0, SAMPLES) };
}

export function RedriveWizard({ group }: { readonly group: DeadLetterGroup }) {
  const shown = useSignal<Preview | undefined>(undefined);
  const problem = useSignal("");
  // Once: the set stays as it was when the user opened the wizard.
  useEffect(() => {
    preview(group).then(
      (found) => {
        shown.value = found;
      },
      (error: unknown) => {
        problem.value = problemOf(error);
      },
    );
  }, []);
  return (
    <Card
      title={`Redrive: ${group.destination}, ${group.reason}`}
      aside={<Link page="dead-letters">Close</Link>}
    >
      {problem.value !== "" && <Notice tone="bad">{problem.value}</Notice>}
      {shown.value === undefined && problem.value === "" && <p class="loading">Counting…</p>}
      {shown.value !== undefined && <Plan {...shown.value} />}
    </Card>
  );
}

function Plan({ filter, total, samples }: Preview) {
  const pace = useSignal<Pace>({
    rate: String(REDRIVE_BOUNDS.ratePerSecond.default),
    canary: String(DEFAULT_CANARY),
  });
  if (total === 0) return <p>All dead letters of this group were redriven already.</p>;
  const problem = paceProblem(pace.value);
  const count = total === 1 ? "1 dead letter" : `${formatInteger(total)} dead letters`;
  return (
    <div class="form">
      <p>
        This redrive takes <strong>{count}</strong> that ended before{" "}
        <When at={filter.finishedTo ?? 0} />. Later ones are not included. Each becomes a new task
        with the same idempotency key, so a target that honors the key does nothing twice.
      </p>
      <Samples samples={samples} total={total} />
      <div class="filters">
        <TextInput
          label="Rate (per second)"
          value={pace.value.rate}
          onChange={(rate) => {
            pace.value = { ...pace.value, rate };
          }}
        />
        <TextInput
          label="Canary (this many first, 0 for none)"
          value={pace.value.canary}
          onChange={(canary) => {
            pace.value = { ...pace.value, canary };
          }}
        />
      </div>
      <Problem message={problem} />
      {problem === "" && (
        <p class="faint">
          {paceSentence(total, pace.value)} If more than a fifth of the canary fails, or a circuit
          opens, the redrive pauses itself.
        </p>
      )}
      <ActionButton
        label={`Redrive ${count}`}
        isAccent
        isDisabled={problem !== ""}
        act={() => start(filter, pace.value)}
      />
    </div>
  );
}

async function start(filter: FrozenFilter, { rate, canary }: Pace): Promise<void> {
  const order = { filter, ratePerSecond: Number(rate), canary: Number(canary) };
  const { redriveId } = await client.startRedrive(order);
  goTo("redrives", { id: redriveId });
}

function Samples({
  samples,
  total,
}: {
  readonly samples: readonly TaskView[];
  readonly total: number;
}) {
  return (
    <ul class="plain-list">
      {samples.map(({ taskId, method, targetUrl, lastStatus, lastError }) => (
        <li key={taskId}>
          <Link page="task" query={{ id: taskId }} class="id">
            {taskId}
          </Link>{" "}
          {method} <bdi>{visibleText(targetUrl)}</bdi>{" "}
          <span class="faint">
            {lastStatus === null ? visibleText(lastError ?? "") : statusText(lastStatus)}
          </span>
        </li>
      ))}
      {total > samples.length && (
        <li class="faint">and {formatInteger(total - samples.length)} more</li>
      )}
    </ul>
  );
}
