/** Labs view: runs published models and compares our results with the published ones. */
import { batch } from "@preact/signals";
import type { LabReport } from "@redrive/simulator";
import { labRows, rowVerdict } from "@redrive/simulator/text";
import { createRef } from "preact";
import { useEffect, useId } from "preact/hooks";
import { exportMenu } from "../../components/export-menu.ts";
import { Card, Notice, Stat, Stats } from "../../components/frames.tsx";
import { whenIdle } from "../../worker/query.ts";
import { FIRST_SEED, newSeed, type Seed, type View } from "../view.ts";
import { OverviewChart } from "./lab-chart.tsx";
import { LabPanel } from "./lab-panel.tsx";
import {
  doneRuns,
  entries,
  isAllWanted,
  isBusy,
  isStopped,
  labProblem,
  resume,
  runAll,
  runningId,
  runningText,
  runOf,
  seed,
  shown,
  startLabs,
  stop,
  unknownLabText,
  wanted,
} from "./lab-store.ts";
import "./labs.css";

const overview = createRef<SVGSVGElement>();

/** Up to this many shown labs start expanded; otherwise only the first does. */
const MAX_OPEN = 2;

function Stage() {
  useEffect(startLabs, []);
  const labs = shown.value;
  return (
    <>
      {unknownLabText.value !== "" && <Notice tone="bad">{unknownLabText.value}</Notice>}
      <Card
        title="Deviation from the published values"
        aside="each dot is a result"
        class="labs-overview"
      >
        <Summary />
        <OverviewChart labs={labs} svgRef={overview} />
      </Card>
      {labs.map((entry, index) => (
        <LabPanel key={entry.id} entry={entry} isOpen={labs.length <= MAX_OPEN || index === 0} />
      ))}
    </>
  );
}

function Summary() {
  const rows = doneRuns.value.flatMap(({ report }) => report.rows);
  const missed = rows.filter((row) => rowVerdict(row) === "missed").length;
  const differ = rows.filter((row) => rowVerdict(row) === "differs").length;
  return (
    <Stats>
      <Stat
        label="Within tolerance"
        value={`${rows.length - missed - differ} of ${rows.length}`}
        note={differ === 0 ? "results" : `results; ${differ} differ with a reason`}
        tone="accent"
      />
      <Stat
        label="Missed"
        value={String(missed)}
        note={missed === 0 ? "none" : "a defect or bad luck"}
        tone={missed === 0 ? "plain" : "bad"}
      />
      <Stat
        label="Finished"
        value={`${doneRuns.value.length} of ${shown.value.length}`}
        note={`labs, seed ${seed.value}`}
      />
    </Stats>
  );
}

/** The reports of all shown labs, or of the finished ones if the reader stopped the rest. */
async function reports(): Promise<readonly LabReport[]> {
  await whenIdle(isBusy);
  return doneRuns.value.map(({ report }) => report);
}

/** The same object that `redrive sim lab --json` prints. */
async function json(): Promise<object> {
  const labs = await reports();
  const isAll = labs.length === shown.value.length;
  return { seed: seed.value, effort: 1, ok: isAll && labs.every(({ ok }) => ok), labs };
}

export const labsView: View<"labs"> = {
  id: "labs",
  explanation:
    "Each lab runs a published model and compares our results with the published ones, with tolerance and source. A dot inside the band agrees, and the first line of a lab says what it teaches.",
  Controls: LabControls,
  Stage,
  state: () => ({ view: "labs", seed: seed.value, ids: wanted.value }),
  open:
    ({ seed: linkSeed, ids }) =>
    () => {
      seed.value = linkSeed;
      wanted.value = [...new Set(ids)];
      resume();
    },
  reset() {
    isAllWanted.value = false;
    seed.value = FIRST_SEED;
    wanted.value = [];
    resume();
  },
  reroll() {
    batch(() => {
      seed.value = newSeed(seed.value);
      resume();
    });
  },
  exports: () =>
    exportMenu({
      name: "redrive-labs",
      drawing: async () => {
        await reports();
        return overview.current;
      },
      caption: () => `seed ${seed.value}`,
      rows: async () => labRows(await reports()),
      json,
    }),
};

// Lab controls: the seed, the progress, and the choice of labs.

function LabControls() {
  return (
    <>
      <Card title="Runs">
        <SeedField />
        <Progress />
      </Card>
      <Card title="Labs" aside={<AllButton />}>
        <ul class="lab-list">
          {entries.value.map(({ id, title }) => (
            <li key={id}>
              <label class="toggle">
                <input
                  type="checkbox"
                  checked={wanted.value.length === 0 || wanted.value.includes(id)}
                  disabled={isLast(id)}
                  onChange={(event) => choose(id, event.currentTarget.checked)}
                />
                <span>
                  {title} <code class="faint">{id}</code>
                </span>
              </label>
              <Mark id={id} />
            </li>
          ))}
        </ul>
      </Card>
    </>
  );
}

/** The last lab cannot be unchecked, because an empty choice means all labs. */
function isLast(id: string): boolean {
  return shown.value.length === 1 && shown.value[0]?.id === id;
}

function SeedField() {
  const id = useId();
  return (
    <div class="field">
      <div class="field-head">
        <label for={id}>Seed</label>
        <input
          id={id}
          class="text-field"
          value={String(seed.value)}
          maxLength={64}
          onChange={(event) => {
            seed.value = parseSeed(event.currentTarget.value);
            event.currentTarget.value = String(seed.value);
            resume();
          }}
        />
      </div>
      <p class="field-hint">The same seed gives the same results here and on the command line.</p>
    </div>
  );
}

/** Digits are a number, anything else a string, as on the command line. */
function parseSeed(text: string): Seed {
  const trimmed = text.trim();
  if (trimmed === "") return seed.peek();
  return /^\d{1,15}$/u.test(trimmed) ? Number(trimmed) : trimmed;
}

function Progress() {
  const total = shown.value.length;
  const done = doneRuns.value.length;
  const isRunning = runningId.value !== undefined;
  return (
    <div class="progress" aria-busy={isBusy.value}>
      <progress max={Math.max(1, total)} value={done} aria-label="Finished labs" />
      <p aria-live="polite">{progressText(done, total)}</p>
      {isRunning && (
        <button type="button" class="button" onClick={stop}>
          Stop
        </button>
      )}
      {!isRunning && done < total && (
        <button type="button" class="button accent" onClick={runAll}>
          Run the remaining labs
        </button>
      )}
    </div>
  );
}

function progressText(done: number, total: number): string {
  if (labProblem.value !== "") return `Stopped: ${labProblem.value}.`;
  if (total === 0) return "Loading…";
  if (runningId.value !== undefined)
    return `${done} of ${total} labs finished, ${runningId.value} is running`;
  if (done < total) return `${done} of ${total} labs finished${isStopped.value ? ", stopped" : ""}`;
  return `${total} of ${total} labs finished`;
}

function AllButton() {
  if (wanted.value.length === 0) return null;
  return (
    <button
      type="button"
      class="button quiet small"
      onClick={() => {
        wanted.value = [];
        resume();
      }}
    >
      Show all
    </button>
  );
}

function choose(id: string, isWanted: boolean): void {
  const ids = new Set(shown.peek().map((entry) => entry.id));
  if (isWanted) ids.add(id);
  else ids.delete(id);
  const all = entries.peek().map((entry) => entry.id);
  wanted.value = ids.size === all.length ? [] : all.filter((one) => ids.has(one));
  resume();
}

function Mark({ id }: { readonly id: string }) {
  const run = runOf(id);
  if (run === undefined)
    return <span class="lab-verdict">{runningId.value === id ? runningText.value : ""}</span>;
  const { ok } = run.report;
  return <span class={ok ? "lab-verdict ok" : "lab-verdict missed"}>{ok ? "ok" : "missed"}</span>;
}
