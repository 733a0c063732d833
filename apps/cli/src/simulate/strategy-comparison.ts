/**
 * Strategy comparison: compares retry strategies on the same clients and seed. `sim herd` and `sim
 * failover` share it: the flags, the charts on one scale, the table, the CSV, the SVG and the link.
 */
import type { PolicyDocument } from "@redrive/core";
import type { OnProgress } from "@redrive/simulator";
import type { CsvRow } from "@redrive/simulator/export";
import type { SharedRun } from "@redrive/simulator/share";
import { policySummary } from "@redrive/simulator/text";
import type { Command } from "commander";
import { addSeedFlag, integerFlag } from "../input/flags.ts";
import { addCurveFlags, type PolicyChoice } from "../input/policy-choice.ts";
import { comparisonLines, type Panel, type PanelsOptions, panelsSvg } from "../print/panels.ts";
import type { OutputOptions, Presentation, Seed } from "../print/presentation.ts";
import { type Column, table } from "../print/table.ts";
import type { Terminal } from "../print/terminal.ts";
import { mapWithStatus } from "./simulation-status.ts";
import { addCompareFlags, chooseStrategies, type StrategyFlags } from "./strategy-choice.ts";

export interface ComparisonFlags extends StrategyFlags, OutputOptions {
  readonly clients: number;
  readonly seed: Seed;
}

const DEFAULT_CLIENTS = 10_000;
const MAX_CLIENTS = 2_000_000;

export function addClientsFlag(command: Command, text: string): Command {
  const parse = integerFlag(1, MAX_CLIENTS);
  return command.option("-N, --clients <count>", text, parse, DEFAULT_CLIENTS);
}

export function addComparisonFlags(command: Command, compare: readonly string[]): Command {
  return addSeedFlag(addCurveFlags(addCompareFlags(command, compare)));
}

/** One strategy and what the simulation of it returned. */
export interface Side<Result> {
  readonly choice: PolicyChoice;
  readonly result: Result;
}

/** Simulates the chosen strategies one after the other. */
export function runSides<Result>(
  terminal: Terminal,
  flags: ComparisonFlags,
  defaults: PolicyDocument,
  simulate: (choice: PolicyChoice, onProgress: OnProgress | undefined) => Result,
): readonly Side<Result>[] {
  return mapWithStatus(terminal, chooseStrategies(flags, defaults), (choice, onProgress) => ({
    choice,
    result: simulate(choice, onProgress),
  }));
}

/** How to show the sides. The callbacks get one side each. */
export interface ComparisonView<Result> {
  readonly title: string;
  readonly scale: PanelsOptions;
  /** The title of a side's chart. */
  readonly panelTitle: (side: Side<Result>) => string;
  readonly panelValues: (result: Result, columns: number) => readonly number[];
  /** Explains the columns of the charts. */
  readonly caption: string;
  /** The columns after "strategy". */
  readonly columns: readonly Column[];
  readonly cells: (result: Result) => readonly string[];
  readonly json: object;
  readonly csv: () => readonly CsvRow[];
  readonly run: SharedRun;
}

export function presentComparison<Result>(
  seed: Seed,
  sides: readonly Side<Result>[],
  view: ComparisonView<Result>,
): Presentation {
  const { title, scale, caption, json, csv, run } = view;
  const panels = sides.map((side) => panelOf(side, view));
  const columns = [{ head: "strategy" }, ...view.columns];
  const rows = sides.map(({ choice, result }) => [choice.name, ...view.cells(result)]);
  return {
    seed,
    json,
    text: (style) =>
      comparisonLines({ title, panels, scale, caption, table: table(columns, rows, style) }, style),
    csv,
    svg: () => panelsSvg(title, panels, scale),
    run,
  };
}

function panelOf<Result>(side: Side<Result>, view: ComparisonView<Result>): Panel {
  return {
    title: `${side.choice.name}: ${view.panelTitle(side)}`,
    caption: policySummary(side.choice.document),
    values: (columns) => view.panelValues(side.result, columns),
  };
}
