/**
 * `redrive sim destination`: simulates an outage of a destination of a running service, with the
 * rate and the latency that the service has measured there.
 */
import { formatCount, formatDuration, formatNumber, RedriveError } from "@redrive/core";
import type { SimulationView } from "@redrive/service/client";
import type { CallsDocument, Report, ScenarioDocument } from "@redrive/simulator";
import { seriesRows } from "@redrive/simulator/text";
import { type Command, InvalidArgumentError } from "commander";
import {
  addConnectionFlags,
  type ClientFlags,
  createServiceClient,
  withErrorReport,
} from "../service/service-client.ts";
import { addExamples, addSeedFlag, durationFlag, withFlagNames } from "../terminal/flags.ts";
import {
  addOutputFlags,
  type OutputOptions,
  type Presentation,
  presentResult,
  type Seed,
} from "../terminal/presentation.ts";
import { type Terminal, type TextStyle, wrap } from "../terminal/terminal.ts";
import { reportSvg, reportText } from "./run.ts";

interface DestinationFlags extends OutputOptions, Omit<ClientFlags, "json"> {
  readonly outage: number;
  readonly policy?: string;
  readonly rate?: number;
  readonly latency?: number;
  readonly seed: Seed;
}

export function addDestination(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("destination <name>")
    .description("Simulate an outage of a destination, as a running service has measured it.");
  command.requiredOption("--outage <duration>", "length of the outage, such as 5m", durationFlag);
  command.option("--policy <id>", "the policy to try (default: that of the destination)");
  command.option("--rate <calls>", "new calls per second, instead of the measured ones", rateFlag);
  command.option(
    "--latency <duration>",
    "duration of a call, instead of the measured ones",
    durationFlag,
  );
  addSeedFlag(command);
  addOutputFlags(command, "json", "csv", "svg", "link");
  addConnectionFlags(command);
  addExamples(
    command,
    "redrive sim destination https://example.com --outage 5m",
    "redrive sim destination payments --outage 30s --policy interactive --seed 7",
  );
  command.action((name: string, flags: DestinationFlags) =>
    withErrorReport(terminal, flags, () =>
      presentResult(terminal, flags, () => simulateDestination(name, flags)),
    ),
  );
}

async function simulateDestination(name: string, flags: DestinationFlags): Promise<Presentation> {
  const { outage: outageMs, policy: policyId, rate, latency: latencyMs, seed } = flags;
  const view = await withFlagNames(FLAG_BY_FIELD, () =>
    createServiceClient(flags).simulate({
      destination: name,
      outageMs,
      seed,
      ...(policyId !== undefined && { policyId }),
      ...(rate !== undefined && { ratePerSecond: rate }),
      ...(latencyMs !== undefined && { latencyMs }),
    }),
  );
  return presentSimulation(view, flags.url);
}

/** The flag that sets each field of the request, for the error messages of the service. */
const FLAG_BY_FIELD: Readonly<Record<string, string>> = {
  destination: "<name>",
  outageMs: "--outage",
  policyId: "--policy",
  ratePerSecond: "--rate",
  latencyMs: "--latency",
};

/** Throws `INVALID_ARGUMENT` if too few calls meet the outage. */
export function presentSimulation(view: SimulationView, serviceUrl: string): Presentation {
  const scenario = view.scenario as ScenarioDocument;
  const report = reportOf(view);
  requireCalls(view, report);
  return {
    seed: report.seed,
    json: view,
    text: (style) => [
      ...inputLines(view, style),
      "",
      ...reportText(scenario, report, style),
      "",
      `Open in the simulator: ${new URL(view.pageUrl, serviceUrl).href}`,
    ],
    csv: () => [...seriesRows(report)],
    svg: () => reportSvg(scenario, report),
    run: { view: "system", seed: report.seed, scenarios: [scenario] },
  };
}

/** JSON has no columns of numbers, only lists. */
function reportOf({ report }: SimulationView): Report {
  const { series, ...rest } = report as unknown as Report;
  const columns = Object.entries(series).map(([name, values]) => [
    name,
    Array.isArray(values) ? Float64Array.from(values) : values,
  ]);
  return { ...rest, series: Object.fromEntries(columns) as Report["series"] };
}

/** With fewer calls, the share of lost calls is off by more than a tenth for each of them. */
const MIN_CALLS = 10;

/** Without calls in the outage, every policy seems to lose none. */
function requireCalls({ inputs, scenario }: SimulationView, { series }: Report): void {
  const { timeline = [] } = scenario as CallsDocument;
  const outage = timeline.find(({ kind }) => kind === "OUTAGE");
  if (inputs === null || outage === undefined) return;
  const from = Math.floor(outage.atMs / series.binMs);
  const to = Math.ceil((outage.atMs + outage.forMs) / series.binMs);
  const calls = series.offered.slice(from, to).reduce((sum, each) => sum + each, 0);
  if (calls >= MIN_CALLS) return;
  const during = `${formatCount(calls, "call")} in an outage of ${formatDuration(outage.forMs)}`;
  const message = `too few calls to say anything: ${during}, at ${rateText(inputs)}; pass --rate, or a longer --outage`;
  throw new RedriveError("INVALID_ARGUMENT", message);
}

function rateText({ ratePerSecond, measuredMinutes }: Inputs): string {
  const source = measuredMinutes === 0 ? "given" : `measured in ${measuredMinutes} min`;
  return `${formatNumber(ratePerSecond)} new calls/s (${source})`;
}

type Inputs = NonNullable<SimulationView["inputs"]>;

function inputLines({ inputs }: SimulationView, { width }: TextStyle): readonly string[] {
  if (inputs === null) return [];
  const { destination, latency, waiting, notes } = inputs;
  const facts = `${destination}: ${rateText(inputs)}, latency p50 ${formatDuration(latency.p50Ms)}, p99 ${formatDuration(latency.p99Ms)}, ${formatNumber(waiting)} waiting tasks.`;
  return [facts, ...notes].flatMap((line) => wrap(line, width));
}

function rateFlag(text: string): number {
  const rate = Number(text);
  if (/^\d+(?:\.\d+)?$/u.test(text) && rate >= 0.001 && rate <= 100_000) return rate;
  throw new InvalidArgumentError("Must be a number from 0.001 to 100000.");
}
