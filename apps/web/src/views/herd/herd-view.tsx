/** Herd: many clients that failed at one instant: when do their retries arrive, by strategy? */
import { formatDuration, formatInteger, herdRows, percent } from "@redrive/simulator/words";
import { createRef } from "preact";
import { exportMenu } from "../../exports/export-menu.ts";
import { Card } from "../../parts/card.tsx";
import { Notice } from "../../parts/notice.tsx";
import { Stat, Stats } from "../../parts/stat.tsx";
import { Toggle } from "../../parts/toggle.tsx";
import { currentResult } from "../../worker/query.ts";
import { newSeed } from "../seed.ts";
import type { View } from "../view.ts";
import { HerdChart } from "./herd-chart.tsx";
import { HerdControls } from "./herd-controls.tsx";
import {
  clients,
  herdQuery,
  herdRun,
  isScaleShared,
  openHerd,
  resetHerd,
  type StrategyResult,
  seed,
  windowMs,
} from "./herd-store.ts";
import { strategyLabel } from "./strategy-labels.ts";
import { WindowHandle } from "./window-handle.tsx";
import "./herd.css";

const drawing = createRef<SVGSVGElement>();

function Stage() {
  const shown = herdQuery.value.value ?? [];
  const isBusy = herdQuery.isBusy.value;
  return (
    <>
      {herdQuery.problem.value !== "" && <Notice tone="bad">{herdQuery.problem.value}</Notice>}
      <Card>
        <HerdStats sides={shown} />
      </Card>
      <Card
        title="Arrivals"
        aside={
          <Toggle
            checked={isScaleShared.value}
            onChange={(checked) => {
              isScaleShared.value = checked;
            }}
          >
            one scale
          </Toggle>
        }
      >
        <div class="herd">
          <div aria-busy={isBusy}>
            <HerdChart sides={shown} isShared={isScaleShared.value} svgRef={drawing} />
          </div>
          <WindowHandle />
        </div>
        <p class="faint">Each column is as high as the fullest window in it{beyond(shown)}.</p>
      </Card>
      <Card title="Peaks" aside={worldWords()}>
        <PeakTable sides={shown} />
      </Card>
    </>
  );
}

/** Of what was counted, whatever the controls say since. */
function worldWords(): string {
  const { input: question } = herdQuery.latest.value ?? {};
  return question === undefined
    ? "counting…"
    : `seed ${question.seed}, windows of ${formatDuration(question.windowMs)}`;
}

function HerdStats({ sides: shown }: { readonly sides: readonly StrategyResult[] }) {
  const worst = shown.toSorted((a, b) => b.herd.peak.count - a.herd.peak.count)[0];
  const best = gentlest(shown);
  if (worst === undefined || best === undefined) {
    return <p class="faint">{herdQuery.isBusy.value ? "Counting…" : "Not counted."}</p>;
  }
  const factor = best.herd.peak.count === 0 ? 1 : worst.herd.peak.count / best.herd.peak.count;
  return (
    <Stats isBusy={herdQuery.isBusy.value}>
      <Stat
        label="Clients"
        value={formatInteger(worst.herd.clients)}
        note={`seed ${herdQuery.latest.value?.input.seed}`}
      />
      <Stat
        label="Highest peak"
        value={formatInteger(worst.herd.peak.count)}
        note={`${strategyLabel(worst.name)}, in ${formatDuration(worst.herd.windowMs)}`}
        tone="bad"
      />
      <Stat
        label="Lowest peak"
        value={formatInteger(best.herd.peak.count)}
        note={`${strategyLabel(best.name)}, in ${formatDuration(best.herd.windowMs)}`}
        tone="accent"
      />
      <Stat
        label="Between them"
        value={`${Math.round(factor * 10) / 10} ×`}
        note="same clients, same seed"
      />
    </Stats>
  );
}

/** The one with the lowest peak. */
function gentlest(shown: readonly StrategyResult[]): StrategyResult | undefined {
  return shown.toSorted((a, b) => a.herd.peak.count - b.herd.peak.count)[0];
}

function beyond(shown: readonly StrategyResult[]): string {
  const lastMs = Math.max(0, ...shown.map(({ herd }) => herd.lastAtMs));
  const endMs = Math.max(0, ...shown.map(({ herd }) => herd.arrivals.length * herd.windowMs));
  return lastMs > endMs
    ? `; the rest, up to ${formatDuration(lastMs)}, lies beyond the picture`
    : "";
}

function PeakTable({ sides: shown }: { readonly sides: readonly StrategyResult[] }) {
  return (
    <div class="table-wrap" aria-busy={herdQuery.isBusy.value}>
      <table class="table peaks">
        <thead>
          <tr>
            <th scope="col">Strategy</th>
            <th scope="col" class="number">
              Peak
            </th>
            <th scope="col" class="number">
              Of clients
            </th>
            <th scope="col" class="number">
              At
            </th>
            <th scope="col" class="number">
              Retries
            </th>
            <th scope="col" class="number">
              Last at
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map(({ name, herd }, index) => (
            <tr key={`${index}-${name}`} data-strategy={name}>
              <th scope="row">{strategyLabel(name)}</th>
              <td class="number strong">{formatInteger(herd.peak.count)}</td>
              <td class="number">{percent(herd.peak.share)}</td>
              <td class="number">{formatDuration(herd.peak.atMs)}</td>
              <td class="number">{formatInteger(herd.retries)}</td>
              <td class="number">{formatDuration(herd.lastAtMs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** As `redrive sim herd --json` prints it. */
async function json(): Promise<object> {
  const sides = await currentResult(herdQuery);
  return {
    seed: seed.value,
    clients: clients.value,
    windowMs: windowMs.value,
    strategies: sides.map(({ name, document, herd }) => ({ name, policy: document, herd })),
  };
}

export const herdView: View<"herd"> = {
  id: "herd",
  explanation:
    "All clients fail at one instant, and every retry fails too: the columns count when their retries arrive at a server that is trying to come back. Without jitter they come as one comb, as tall as the fleet; the strategies below differ in nothing but how chance spreads them.",
  Controls: HerdControls,
  Stage,
  state: herdRun,
  open: openHerd,
  reset: resetHerd,
  reroll() {
    seed.value = newSeed(seed.value);
  },
  exports: () =>
    exportMenu({
      name: "redrive-herd",
      drawing: async () => {
        await currentResult(herdQuery);
        return drawing.current;
      },
      rows: async () => herdRows(await currentResult(herdQuery)),
      json,
      policy: async () => gentlest(await currentResult(herdQuery))?.document ?? {},
      policyTitle: () =>
        `${strategyLabel(gentlest(herdQuery.value.value ?? [])?.name ?? "")}, the lowest peak,`,
    }),
};
