/**
 * `redrive sim herd`: many clients fail at one instant and every retry fails too; when do their
 * retries arrive? One scale, one window and one seed for all strategies.
 */
import type { PolicyDocument } from "@redrive/core";
import { type Herd, herd } from "@redrive/simulator";
import {
  formatDuration,
  formatInteger,
  herdRows,
  peaksOver,
  percent,
  policyWords,
} from "@redrive/simulator/words";
import type { Command } from "commander";
import { addExamples, addSeedFlag, durationFlag, integerFlag } from "../input/flags.ts";
import { addCurveFlags, type PolicyChoice } from "../input/policy-choice.ts";
import { comparisonLines, type Panel, type PanelsOptions, panelsSvg } from "../print/panels.ts";
import {
  addOutputFlags,
  type OutputOptions,
  type Presentation,
  presentResult,
  type Seed,
} from "../print/presentation.ts";
import { table } from "../print/table.ts";
import type { Terminal, TextStyle } from "../print/terminal.ts";
import { mapWithStatus } from "./simulation-status.ts";
import { addCompareFlags, chooseStrategies, type StrategyFlags } from "./strategy-choice.ts";

interface HerdFlags extends StrategyFlags, OutputOptions {
  readonly clients: number;
  readonly window?: number;
  readonly seed: Seed;
}

/** The model of the herd lab: five retries, a cap of thirty times the base. */
const DEFAULTS: PolicyDocument = { maxAttempts: 6, initialDelayMs: 100 };
const CAP_FACTOR = 30;

export function addHerd(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("herd")
    .description("show when the retries of many clients arrive that failed at once");
  command.option("-N, --clients <count>", "clients", integerFlag(1, 2_000_000), 10_000);
  addCompareFlags(command, ["none", "full", "decorrelated"]);
  addSeedFlag(addCurveFlags(command));
  command.option("--window <span>", "width in which arrivals are counted", durationFlag);
  addOutputFlags(command, "json", "csv", "svg", "url");
  addExamples(
    command,
    "redrive sim herd -N 10000 --compare none,full,decorrelated --seed 7",
    "redrive sim herd --compare full,equal,aws-standard --window 50ms",
  );
  command.action((flags: HerdFlags) =>
    presentResult(terminal, flags, () => presentHerd(terminal, flags)),
  );
}

interface Side {
  readonly choice: PolicyChoice;
  readonly result: Herd;
}

export function presentHerd(terminal: Terminal, flags: HerdFlags): Presentation {
  const { seed, clients } = flags;
  const sides = runHerds(terminal, flags);
  const windowMs = sides[0]?.result.windowMs ?? 1;
  const strategies = sides.map(({ choice }) => ({ name: choice.name, policy: choice.shared }));
  const title = `${formatInteger(clients)} clients fail at once, and every retry fails too; arrivals in windows of ${formatDuration(windowMs)}`;
  return {
    seed,
    json: {
      seed,
      clients,
      windowMs,
      strategies: sides.map(({ choice, result }) => ({
        name: choice.name,
        policy: choice.document,
        herd: result,
      })),
    },
    text: (style) => herdText(title, sides, style),
    csv: () => herdRows(sides.map(({ choice: { name }, result }) => ({ name, herd: result }))),
    svg: () => panelsSvg(title, panelsOf(sides), scaleOf(sides)),
    run: { view: "herd", seed, strategies, clients, windowMs },
  };
}

/** All with the window of the first, because peaks of different windows say nothing. */
function runHerds(terminal: Terminal, flags: HerdFlags): readonly Side[] {
  const { seed, clients } = flags;
  const maxDelayMs = flags.cap ?? CAP_FACTOR * (flags.base ?? DEFAULTS.initialDelayMs ?? 1);
  const strategies = chooseStrategies(flags, { ...DEFAULTS, maxDelayMs });
  let windowMs = flags.window;
  return mapWithStatus(terminal, strategies, (choice) => {
    const options = { clients, seed, ...(windowMs !== undefined && { windowMs }) };
    const result = herd(choice.document, options);
    windowMs = result.windowMs;
    return { choice, result };
  });
}

function panelsOf(sides: readonly Side[]): readonly Panel[] {
  const { endMs } = scaleOf(sides);
  return sides.map(({ choice, result: { peak, windowMs, arrivals } }) => {
    const share = `${percent(peak.share)} of the clients`;
    return {
      title: `${choice.name}: peak ${formatInteger(peak.count)} (${share}) at ${formatDuration(peak.atMs)}`,
      note: policyWords(choice.document),
      values: (columns) => peaksOver(arrivals, windowMs, endMs, columns),
    };
  });
}

/** Where the last arrival that is still counted by window lies. */
function endOf(results: readonly Herd[]): number {
  return Math.max(1, ...results.map(({ arrivals, windowMs }) => arrivals.length * windowMs));
}

function scaleOf(sides: readonly Side[]): PanelsOptions {
  const results = sides.map(({ result }) => result);
  const top = Math.max(1, ...results.map(({ peak }) => peak.count));
  return { top, endMs: endOf(results), height: 6 };
}

function herdText(title: string, sides: readonly Side[], style: TextStyle): readonly string[] {
  const note = axisWords(sides);
  const table = summary(sides, style);
  return comparisonLines(
    { title, panels: panelsOf(sides), scale: scaleOf(sides), caption: note, table },
    style,
  );
}

function axisWords(sides: readonly Side[]): string {
  const lastMs = Math.max(...sides.map(({ result }) => result.lastAtMs));
  const isCut = lastMs > scaleOf(sides).endMs;
  const beyond = isCut
    ? `; the rest, up to ${formatDuration(lastMs)}, lies beyond the picture`
    : "";
  return `each column is as high as the fullest window in it${beyond}`;
}

function summary(sides: readonly Side[], style: TextStyle): readonly string[] {
  const rows = sides.map(({ choice, result }) => [
    choice.name,
    formatInteger(result.peak.count),
    percent(result.peak.share),
    formatInteger(result.retries),
    formatDuration(result.lastAtMs),
  ]);
  const columns = [
    { head: "strategy" },
    { head: "peak", align: "right" },
    { head: "of clients", align: "right" },
    { head: "retries", align: "right" },
    { head: "last at", align: "right" },
  ] as const;
  return table(columns, rows, style);
}
