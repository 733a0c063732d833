/**
 * `redrive sim destination`: simulates an outage of a destination of a running service, with the rate and
 * the latency that the service has measured there.
 */
import { formatDuration, formatNumber } from "@redrive/core";
import type { SimulationView } from "@redrive/service/client";
import type { Report, ScenarioDocument } from "@redrive/simulator";
import { seriesRows } from "@redrive/simulator/text";
import { type Command, InvalidArgumentError } from "commander";
import { addExamples, addSeedFlag, durationFlag } from "../input/flags.ts";
import {
  addOutputFlags,
  type OutputOptions,
  type Presentation,
  presentResult,
  type Seed,
} from "../print/presentation.ts";
import type { Terminal, TextStyle } from "../print/terminal.ts";
import { wrap } from "../print/wrap.ts";
import {
  addConnectionFlags,
  type ClientFlags,
  createServiceClient,
  withErrorReport,
} from "../service/service-client.ts";
import { reportSvg, reportText } from "./report-text.ts";

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
  const view = await createServiceClient(flags).simulate({
    destination: name,
    outageMs,
    seed,
    ...(policyId !== undefined && { policyId }),
    ...(rate !== undefined && { ratePerSecond: rate }),
    ...(latencyMs !== undefined && { latencyMs }),
  });
  return presentSimulation(view, flags.url);
}

export function presentSimulation(view: SimulationView, serviceUrl: string): Presentation {
  const scenario = view.scenario as ScenarioDocument;
  const report = reportOf(view);
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

function inputLines({ inputs }: SimulationView, { width }: TextStyle): readonly string[] {
  if (inputs === null) return [];
  const { destination, ratePerSecond, measuredMinutes, latency, waiting, notes } = inputs;
  const source = measuredMinutes === 0 ? "given" : `measured in ${measuredMinutes} min`;
  const facts = `${destination}: ${formatNumber(ratePerSecond)} new calls/s (${source}), latency p50 ${formatDuration(latency.p50Ms)}, p99 ${formatDuration(latency.p99Ms)}, ${formatNumber(waiting)} waiting tasks.`;
  return [facts, ...notes].flatMap((line) => wrap(line, width));
}

function rateFlag(text: string): number {
  const rate = Number(text);
  if (/^\d+(?:\.\d+)?$/u.test(text) && rate >= 0.001 && rate <= 100_000) return rate;
  throw new InvalidArgumentError("Must be a number from 0.001 to 100000.");
}
