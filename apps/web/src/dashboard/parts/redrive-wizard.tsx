/** Redrive wizard: shows which dead letters a redrive takes, asks for its pace, and starts it. */
import { useSignal } from "@preact/signals";
import { formatCount, formatDuration, formatInteger, statusText } from "@redrive/core";
import { REDRIVE_BOUNDS } from "@redrive/service/client";
import { useEffect } from "preact/hooks";
import { Problem } from "../../components/controls.tsx";
import { Card, Notice } from "../../components/frames.tsx";
import {
  client,
  type DeadLetterGroup,
  problemOf,
  type RedriveToStart,
  type TaskView,
} from "./client.ts";
import { ActionButton, TextInput } from "./form.tsx";
import { goTo, Link } from "./link.tsx";
import { formatInstant } from "./times.tsx";
import { visibleText } from "./visible-text.ts";

const SAMPLES = 5;
/** Dead letters that are read to find samples that were not redriven yet. */
const SAMPLE_PAGE = 50;
/** A few first, because most redrives follow a repair that may not have worked. */
const DEFAULT_CANARY = 10;

interface Preview {
  readonly set: RedriveSet;
  /** Dead letters that were not redriven yet. */
  readonly total: number;
  readonly samples: readonly TaskView[];
}

async function preview(set: RedriveSet): Promise<Preview> {
  if ("taskIds" in set) {
    return { set, total: set.taskIds.length, samples: set.samples.slice(0, SAMPLES) };
  }
  const { filter } = set;
  const [{ total }, { tasks }] = await Promise.all([
    client.startRedrive({ filter, dryRun: true }),
    client.listDeadLetters({ ...filter, redriven: false, limit: SAMPLE_PAGE }),
  ]);
  return { set, total, samples: tasks.slice(0, SAMPLES) };
}

interface RedriveWizardProps {
  readonly set: RedriveSet;
  onClose(): void;
}

export function RedriveWizard({ set, onClose }: RedriveWizardProps) {
  const shown = useSignal<Preview | undefined>(undefined);
  const problem = useSignal("");
  // Once: the set stays as it was when the user opened the wizard.
  useEffect(() => {
    preview(set).then(
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
      title={`Redrive ${set.title}`}
      class="wizard"
      aside={
        <button type="button" class="button small quiet" onClick={onClose}>
          Close
        </button>
      }
    >
      {problem.value !== "" && <Notice tone="bad">{problem.value}</Notice>}
      {shown.value === undefined && problem.value === "" && <p class="loading">Counting…</p>}
      {shown.value !== undefined && <Plan {...shown.value} />}
    </Card>
  );
}

function Plan({ set, total, samples }: Preview) {
  const pace = useSignal<Pace>({
    rate: String(REDRIVE_BOUNDS.ratePerSecond.default),
    canary: String(Math.min(DEFAULT_CANARY, total)),
  });
  if (total === 0) return <p>All of these dead letters were redriven already.</p>;
  const problem = paceProblem(pace.value);
  const count = formatCount(total, "dead letter");
  return (
    <div class="form">
      <p>
        This redrive takes <strong>{count}</strong>
        {"filter" in set && ` that ended before ${formatInstant(set.filter.finishedTo ?? 0)}`}.
        Later ones are not included. Each becomes a new task with the same idempotency key, so a
        target that honors the key does nothing twice.
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
          label="Canary tasks (0: none)"
          value={pace.value.canary}
          onChange={(canary) => {
            pace.value = { ...pace.value, canary };
          }}
        />
      </div>
      <Problem message={problem} />
      {problem === "" && (
        <p class="faint">
          {paceSentence(total, pace.value)} The canary is sent first. If more than a fifth of the
          canary fails, or a circuit opens, the redrive pauses itself.
        </p>
      )}
      <ActionButton
        label={`Redrive ${count}`}
        isAccent
        isDisabled={problem !== ""}
        act={() => start(set, pace.value)}
      />
    </div>
  );
}

async function start(set: RedriveSet, { rate, canary }: Pace): Promise<void> {
  const members = "filter" in set ? { filter: set.filter } : { taskIds: [...set.taskIds] };
  const { redriveId } = await client.startRedrive({
    ...members,
    ratePerSecond: Number(rate),
    canary: Number(canary),
  });
  goTo("redrives", { id: redriveId });
}

interface SamplesProps {
  readonly samples: readonly TaskView[];
  readonly total: number;
}

function Samples({ samples, total }: SamplesProps) {
  return (
    <ul class="plain-list samples">
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

// Redrive plan: the dead letters that a redrive takes, frozen when the user sees them, and how long
// it takes. Dead letters that arrive later are not included.

type FrozenFilter = NonNullable<RedriveToStart["filter"]>;

/** Dead letters by a frozen filter, or by their ids. */
export type RedriveSet =
  | { readonly title: string; readonly filter: FrozenFilter }
  | {
      readonly title: string;
      readonly taskIds: readonly string[];
      readonly samples: readonly TaskView[];
    };

/**
 * The filter of exactly this group, up to its last dead letter. Undefined for a group without a
 * reason: no filter of the API selects it, and a wider one would take others as well.
 */
export function frozenFilter(group: DeadLetterGroup): FrozenFilter | undefined {
  const { destination, reason, lastFinishedAt } = group;
  return reason === null ? undefined : { destination, reason, finishedTo: lastFinishedAt + 1 };
}

interface Pace {
  /** As typed. */
  readonly rate: string;
  readonly canary: string;
}

/** What is wrong with the pace, or "". */
export function paceProblem({ rate, canary }: Pace): string {
  const { ratePerSecond, canary: first } = REDRIVE_BOUNDS;
  if (!isWithin(Number(rate), ratePerSecond) || rate.trim() === "") {
    return `The rate must be a number from ${ratePerSecond.minimum} to ${formatInteger(ratePerSecond.maximum)} per second, got "${rate}".`;
  }
  if (!isWithin(Number(canary), first) || !/^\d+$/u.test(canary.trim())) {
    return `The canary must be a whole number from ${first.minimum} to ${first.maximum}, got "${canary}".`;
  }
  return "";
}

function isWithin(
  value: number,
  { minimum, maximum }: { readonly minimum: number; readonly maximum: number },
): boolean {
  return value >= minimum && value <= maximum;
}

/** "at 10 per second this takes about 20 s". */
export function paceSentence(total: number, { rate }: Pace): string {
  const durationMs = Math.ceil(total / Number(rate)) * 1000;
  return `At ${rate} per second this takes about ${formatDuration(durationMs)}, plus the time of the attempts.`;
}
