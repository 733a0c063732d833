/** Labs view: runs published models and compares our results with the published ones. */
import { batch } from "@preact/signals";
import type { LabReport } from "@redrive/simulator";
import { labRows, rowVerdict } from "@redrive/simulator/text";
import { createRef } from "preact";
import { useEffect } from "preact/hooks";
import { Card } from "../../components/card.tsx";
import { Notice } from "../../components/notice.tsx";
import { Stat, Stats } from "../../components/stat.tsx";
import { exportMenu } from "../../exports/export-menu.ts";
import { whenIdle } from "../../worker/query.ts";
import { FIRST_SEED, newSeed } from "../seed.ts";
import type { View } from "../view.ts";
import { LabControls } from "./lab-controls.tsx";
import { LabPanel } from "./lab-panel.tsx";
import {
  doneRuns,
  isAllWanted,
  isBusy,
  resume,
  seed,
  shown,
  startLabs,
  unknownLabText,
  wanted,
} from "./lab-store.ts";
import { OverviewChart } from "./overview-chart.tsx";
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
