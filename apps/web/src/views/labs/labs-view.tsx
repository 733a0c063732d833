/** Labs: published results beside our own, run here and now, each with its tolerance. */
import { batch } from "@preact/signals";
import type { LabReport } from "@redrive/simulator";
import { labRows, rowVerdict } from "@redrive/simulator/words";
import { createRef } from "preact";
import { useEffect } from "preact/hooks";
import { exportMenu } from "../../exports/export-menu.ts";
import { Card } from "../../parts/card.tsx";
import { Notice } from "../../parts/notice.tsx";
import { Stat, Stats } from "../../parts/stat.tsx";
import { whenIdle } from "../../worker/query.ts";
import { FIRST_SEED, newSeed } from "../seed.ts";
import type { View } from "../view.ts";
import { LabControls } from "./lab-controls.tsx";
import { LabPanel } from "./lab-panel.tsx";
import {
  doneRuns,
  isBusy,
  resume,
  seed,
  shown,
  startLabs,
  unknownWords,
  wanted,
} from "./lab-store.ts";
import { OverviewChart } from "./overview-chart.tsx";
import "./labs.css";

const overview = createRef<SVGSVGElement>();

/** So many are open from the start; more would hide one another. */
const MAX_OPEN = 2;

function Stage() {
  useEffect(startLabs, []);
  const labs = shown.value;
  return (
    <>
      {unknownWords.value !== "" && <Notice tone="bad">{unknownWords.value}</Notice>}
      <Card
        title="How far ours lies from the published value"
        aside="each dot a result"
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
        note={differ === 0 ? "results" : `results; ${differ} differ, and say why`}
        tone="accent"
      />
      <Stat
        label="Missed"
        value={String(missed)}
        note={missed === 0 ? "none" : "a defect, or chance"}
        tone={missed === 0 ? "plain" : "bad"}
      />
      <Stat
        label="Run so far"
        value={`${doneRuns.value.length} of ${shown.value.length}`}
        note={`labs, seed ${seed.value}`}
      />
    </Stats>
  );
}

/** Of all labs on the stage, or of those that had run when they were stopped. */
async function reports(): Promise<readonly LabReport[]> {
  await whenIdle(isBusy);
  return doneRuns.value.map(({ report }) => report);
}

/** As `redrive sim lab --json` prints it. */
async function json(): Promise<object> {
  const labs = await reports();
  const isAll = labs.length === shown.value.length;
  return { seed: seed.value, effort: 1, ok: isAll && labs.every(({ ok }) => ok), labs };
}

export const labsView: View<"labs"> = {
  id: "labs",
  explanation:
    "Each lab runs a model that somebody published and sets our figure beside theirs, with the tolerance and where it comes from. A dot inside the band agrees; what each lab teaches stands in its first line.",
  Controls: LabControls,
  Stage,
  state: () => ({ view: "labs", seed: seed.value, ids: wanted.value }),
  open:
    ({ seed: ofSeed, ids }) =>
    () => {
      seed.value = ofSeed;
      wanted.value = [...new Set(ids)];
      resume();
    },
  reset() {
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
      rows: async () => labRows(await reports()),
      json,
    }),
};
