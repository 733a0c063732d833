/**
 * `redrive sim herd`: shows when the retries of many clients arrive if all fail at the same instant
 * and every retry fails too. All strategies share one scale, one window and one seed.
 */
import type { PolicyDocument } from "@redrive/core";
import { formatDuration, formatInteger, formatPercent } from "@redrive/core";
import { type Herd, herd } from "@redrive/simulator";
import { herdRows, peaksOver } from "@redrive/simulator/text";
import type { Command } from "commander";
import { addExamples, durationFlag } from "../input/flags.ts";
import type { PanelsOptions } from "../print/panels.ts";
import { addOutputFlags, type Presentation, presentResult } from "../print/presentation.ts";
import type { Terminal } from "../print/terminal.ts";
import {
  addClientsFlag,
  addComparisonFlags,
  type ComparisonFlags,
  presentComparison,
  runSides,
  type Side,
} from "./strategy-comparison.ts";

interface HerdFlags extends ComparisonFlags {
  readonly window?: number;
}

/** The model of the herd lab: five retries, and a cap of thirty times the base. */
const DEFAULTS: PolicyDocument = { maxAttempts: 6, initialDelayMs: 100 };
const CAP_FACTOR = 30;

export function addHerd(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("herd")
    .description("Show when retries arrive after many clients fail at the same instant.");
  addClientsFlag(command, "number of clients");
  addComparisonFlags(command, ["none", "full", "decorrelated"]);
  command.option(
    "--window <duration>",
    "width of the window in which arrivals are counted",
    durationFlag,
  );
  addOutputFlags(command, "json", "csv", "svg", "link");
  addExamples(
    command,
    "redrive sim herd -N 10000 --compare none,full,decorrelated --seed 7",
    "redrive sim herd --compare full,equal,aws-standard --window 50ms",
  );
  command.action((flags: HerdFlags) =>
    presentResult(terminal, flags, () => presentHerd(terminal, flags)),
  );
}

export function presentHerd(terminal: Terminal, flags: HerdFlags): Presentation {
  const { seed, clients } = flags;
  const sides = runHerds(terminal, flags);
  const windowMs = sides[0]?.result.windowMs ?? 1;
  const scale = scaleOf(sides);
  const strategies = sides.map(({ choice }) => ({ name: choice.name, policy: choice.shared }));
  const results = sides.map(({ choice: { name, document }, result }) => ({
    name,
    policy: document,
    herd: result,
  }));
  return presentComparison(seed, sides, {
    title: `${formatInteger(clients)} clients fail at once, and every retry fails too; arrivals in windows of ${formatDuration(windowMs)}`,
    scale,
    panelTitle,
    panelValues: ({ arrivals }, columns) => peaksOver(arrivals, windowMs, scale.endMs, columns),
    caption: captionOf(sides, scale),
    columns: COLUMNS,
    cells: cellsOf,
    json: { seed, clients, windowMs, strategies: results },
    csv: () => herdRows(results.map(({ name, herd: result }) => ({ name, herd: result }))),
    run: { view: "herd", seed, strategies, clients, windowMs },
  });
}

/** All strategies use the window of the first: peaks of different windows are not comparable. */
function runHerds(terminal: Terminal, flags: HerdFlags): readonly Side<Herd>[] {
  const { seed, clients } = flags;
  const maxDelayMs = flags.cap ?? CAP_FACTOR * (flags.base ?? DEFAULTS.initialDelayMs ?? 1);
  let windowMs = flags.window;
  return runSides(terminal, flags, { ...DEFAULTS, maxDelayMs }, ({ document }) => {
    const options = { clients, seed, ...(windowMs !== undefined && { windowMs }) };
    const result = herd(document, options);
    windowMs = result.windowMs;
    return result;
  });
}

function panelTitle({ result: { peak } }: Side<Herd>): string {
  const share = `${formatPercent(peak.share)} of the clients`;
  return `peak ${formatInteger(peak.count)} (${share}) at ${formatDuration(peak.atMs)}`;
}

/** The end is where the last counted window ends. */
function scaleOf(sides: readonly Side<Herd>[]): PanelsOptions {
  const results = sides.map(({ result }) => result);
  const ends = results.map(({ arrivals, windowMs }) => arrivals.length * windowMs);
  return {
    top: Math.max(1, ...results.map(({ peak }) => peak.count)),
    endMs: Math.max(1, ...ends),
    height: 6,
  };
}

function captionOf(sides: readonly Side<Herd>[], { endMs }: PanelsOptions): string {
  const lastMs = Math.max(...sides.map(({ result }) => result.lastAtMs));
  const beyond =
    lastMs > endMs ? `; later arrivals, up to ${formatDuration(lastMs)}, are not shown` : "";
  return `each column shows its fullest window${beyond}`;
}

const COLUMNS = [
  { head: "peak", align: "right" },
  { head: "of clients", align: "right" },
  { head: "retries", align: "right" },
  { head: "last at", align: "right" },
] as const;

function cellsOf({ peak, retries, lastAtMs }: Herd): readonly string[] {
  return [
    formatInteger(peak.count),
    formatPercent(peak.share),
    formatInteger(retries),
    formatDuration(lastAtMs),
  ];
}
