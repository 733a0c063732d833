/**
 * `redrive schedule`: shows the waits of one call if every attempt fails, one line per attempt, and
 * the probability that the call survives an outage.
 */
import {
  formatCount,
  formatDuration,
  formatPercent,
  type PolicyDocument,
  resolvePolicy,
} from "@redrive/core";
import { COVERAGE_SAMPLES, coverage, type Schedule, schedule } from "@redrive/simulator";
import { formatSamples, maxSumMs, policySummary, scheduleRows } from "@redrive/simulator/text";
import type { Command } from "commander";
import { rangeBar, svgBars } from "../terminal/charts.ts";
import { addExamples, addOutageFlag, addSeedFlag } from "../terminal/flags.ts";
import {
  addCurveFlags,
  addJitterFlags,
  addPolicyFlags,
  choosePolicy,
  ignoredGuards,
  type PolicyChoice,
  type PolicyFlags,
} from "../terminal/policy-choice.ts";
import {
  addOutputFlags,
  type OutputOptions,
  type Presentation,
  presentResult,
  type Seed,
} from "../terminal/presentation.ts";
import { type Terminal, type TextStyle, wrap, wrapWithPrefix } from "../terminal/terminal.ts";

interface ScheduleFlags extends PolicyFlags, OutputOptions {
  readonly seed: Seed;
  readonly outage: number;
}

export function addSchedule(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("schedule")
    .description("Show the waits of a policy and the share of calls that survive an outage.");
  addSeedFlag(addCurveFlags(addJitterFlags(addPolicyFlags(command))));
  addOutageFlag(command, "length of the outage");
  addOutputFlags(command, "json", "csv", "svg", "link");
  addExamples(
    command,
    "redrive schedule --full --base 200ms --cap 20s -n 6",
    "redrive schedule --preset webhook --outage 10h",
    "redrive schedule --policy-file policy.json --seed 7 --svg schedule.svg",
  );
  command.action((flags: ScheduleFlags) =>
    presentResult(terminal, flags, () => presentSchedule(flags)),
  );
}

interface Run {
  readonly choice: PolicyChoice;
  readonly result: Schedule;
  readonly outageMs: number;
  readonly share: number;
}

function presentSchedule(flags: ScheduleFlags): Presentation {
  const { seed, outage: outageMs } = flags;
  const choice = choosePolicy(flags);
  const result = schedule(choice.document, { seed });
  const share = coverage(choice.document, outageMs, { seed, samples: COVERAGE_SAMPLES });
  const run = { choice, result, outageMs, share };
  return {
    seed,
    json: { seed, policy: choice.document, schedule: result, outageMs, coverage: share },
    text: (style) => scheduleText(run, style),
    csv: () => scheduleRows(result),
    svg: () => scheduleSvg(choice.document, result),
    run: { view: "curve", seed, policy: choice.shared, outageMs },
    notes: ignoredGuards([choice]),
  };
}

function scheduleText(
  { choice, result, outageMs, share }: Run,
  style: TextStyle,
): readonly string[] {
  const { waits, sumMs } = result;
  const title = `${choice.name}: ${policySummary(choice.document)}`;
  const survival = `${formatPercent(share)} of the calls survive an outage of ${formatDuration(outageMs)}`;
  const tried = formatSamples(choice.document, COVERAGE_SAMPLES);
  return [
    ...wrap(title, style.width),
    "",
    ...attemptLines(result, style),
    "",
    ...wrapWithPrefix(
      "total   ",
      `${formatCount(waits.length, "wait")}, ${formatDuration(sumMs)}${maxTotalText(choice, result)}. ${endText(choice, result)}`,
      style.width,
    ),
    ...wrapWithPrefix("covers  ", `${survival}${tried}.`, style.width),
  ];
}

function maxTotalText({ document }: PolicyChoice, result: Schedule): string {
  const longestMs = maxSumMs(document, result);
  return longestMs === undefined ? "" : ` of at most ${formatDuration(longestMs)}`;
}

function endText({ document }: PolicyChoice, { attempts, endedBy }: Schedule): string {
  const { maxAttempts, totalBudgetMs } = resolvePolicy(document);
  if (endedBy === "attempts") return `Gives up after attempt ${attempts}.`;
  return `Gives up after attempt ${attempts} of ${maxAttempts}: the next wait would exceed the total of ${formatDuration(totalBudgetMs)}.`;
}

const HEADS = { attempt: "attempt", wait: "wait", range: "drawn from", at: "starts at" };

function attemptLines({ waits }: Schedule, style: TextStyle): readonly string[] {
  const { paint, width } = style;
  const ranges = waits.map(({ lowMs, highMs }) => rangeText(lowMs, highMs));
  const rangeWidth = Math.max(HEADS.range.length, ...ranges.map((text) => text.length));
  const waitWidth = Math.max(9, ...waits.map(({ delayMs }) => formatDuration(delayMs).length));
  const barWidth = Math.max(8, width - rangeWidth - 7 - waitWidth - 9 - 4 * 2);
  const top = Math.max(0, ...waits.map(({ highMs }) => highMs));
  const line = (attempt: string, drawn: string, wait: string, range: string, at: string) =>
    `${attempt.padStart(7)}  ${drawn}  ${wait.padStart(waitWidth)}  ${range.padEnd(rangeWidth)}  ${at.padStart(9)}`;
  const blank = " ".repeat(barWidth);
  return [
    paint("faint", line(HEADS.attempt, blank, HEADS.wait, HEADS.range, HEADS.at)),
    line("1", blank, "", "", "0"),
    ...waits.map(({ attempt, delayMs, highMs, sumMs }, index) => {
      const { solid, dots, rest } = rangeBar(delayMs, highMs, top, barWidth);
      const drawn = paint("accent", solid) + paint("faint", dots) + rest;
      return line(
        String(attempt + 1),
        drawn,
        formatDuration(delayMs),
        ranges[index] ?? "",
        formatDuration(sumMs),
      );
    }),
  ];
}

function rangeText(lowMs: number, highMs: number): string {
  if (lowMs === highMs) return `${formatDuration(lowMs)} exactly`;
  return `${lowMs === 0 ? "0" : formatDuration(lowMs)} to ${formatDuration(highMs)}`;
}

export function scheduleSvg(document: PolicyDocument, { waits }: Schedule): string {
  const bars = waits.map(({ attempt, lowMs, highMs, delayMs, sumMs }) => ({
    label: `attempt ${attempt + 1}`,
    lowMs,
    highMs,
    valueMs: delayMs,
    caption: `starts at ${formatDuration(sumMs)}`,
  }));
  return svgBars(policySummary(document), bars);
}
