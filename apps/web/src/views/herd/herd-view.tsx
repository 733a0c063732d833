/** Herd view: when retries arrive after many clients fail at the same instant, by strategy. */

import { formatDuration, formatInteger, formatPercent } from "@redrive/core";
import { herdRows } from "@redrive/simulator/text";
import { createRef } from "preact";
import { Card } from "../../components/card.tsx";
import { Notice } from "../../components/notice.tsx";
import { Stat, Stats } from "../../components/stat.tsx";
import { Toggle } from "../../components/toggle.tsx";
import { exportMenu } from "../../exports/export-menu.ts";
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
        <HerdStats results={shown} />
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
            same scale
          </Toggle>
        }
      >
        <div class="herd">
          <div aria-busy={isBusy}>
            <HerdChart results={shown} isScaleShared={isScaleShared.value} svgRef={drawing} />
          </div>
          <WindowHandle />
        </div>
        <p class="faint">Each column shows the fullest window in it{hiddenText(shown)}.</p>
      </Card>
      <Card title="Peaks" aside={inputText()}>
        <PeakTable results={shown} />
      </Card>
    </>
  );
}

/** Describes the input of the shown result, which can be older than the controls. */
function inputText(): string {
  const { input } = herdQuery.latest.value ?? {};
  return input === undefined
    ? "counting…"
    : `seed ${input.seed}, windows of ${formatDuration(input.windowMs)}`;
}

function HerdStats({ results: shown }: { readonly results: readonly StrategyResult[] }) {
  const worst = shown.toSorted((a, b) => b.herd.peak.count - a.herd.peak.count)[0];
  const best = lowestPeak(shown);
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
        label="Ratio"
        value={`${Math.round(factor * 10) / 10} ×`}
        note="same clients, same seed"
      />
    </Stats>
  );
}

/** The strategy with the lowest peak. */
function lowestPeak(shown: readonly StrategyResult[]): StrategyResult | undefined {
  return shown.toSorted((a, b) => a.herd.peak.count - b.herd.peak.count)[0];
}

function hiddenText(shown: readonly StrategyResult[]): string {
  const lastMs = Math.max(0, ...shown.map(({ herd }) => herd.lastAtMs));
  const endMs = Math.max(0, ...shown.map(({ herd }) => herd.arrivals.length * herd.windowMs));
  return lastMs > endMs ? `; later arrivals, up to ${formatDuration(lastMs)}, are not shown` : "";
}

function PeakTable({ results: shown }: { readonly results: readonly StrategyResult[] }) {
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
              Share of clients
            </th>
            <th scope="col" class="number">
              At
            </th>
            <th scope="col" class="number">
              Retries
            </th>
            <th scope="col" class="number">
              Last retry at
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map(({ name, herd }, index) => (
            <tr key={`${index}-${name}`} data-strategy={name}>
              <th scope="row">{strategyLabel(name)}</th>
              <td class="number strong">{formatInteger(herd.peak.count)}</td>
              <td class="number">{formatPercent(herd.peak.share)}</td>
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

/** The same object that `redrive sim herd --json` prints. */
async function json(): Promise<object> {
  const results = await currentResult(herdQuery);
  return {
    seed: seed.value,
    clients: clients.value,
    windowMs: windowMs.value,
    strategies: results.map(({ name, document, herd }) => ({ name, policy: document, herd })),
  };
}

export const herdView: View<"herd"> = {
  id: "herd",
  explanation:
    "All clients fail at the same instant, every retry fails too, and the columns count the retries that arrive at the recovering server. Without jitter all clients retry at the same moments; the strategies differ only in how they spread the retries.",
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
      caption: () => `${formatInteger(clients.value)} clients, ${inputText()}`,
      rows: async () => herdRows(await currentResult(herdQuery)),
      json,
      policy: async () => lowestPeak(await currentResult(herdQuery))?.document ?? {},
      policyTitle: () =>
        `${strategyLabel(lowestPeak(herdQuery.value.value ?? [])?.name ?? "")} (lowest peak)`,
    }),
};
