/**
 * `redrive sim run`: simulates one scenario, built-in or from a file, and shows the verdict, the
 * measures, and load, attempts and goodput over time.
 */
import { isObject, POLICY_FIELDS, quote, RedriveError } from "@redrive/core";
import { type Report, type ScenarioDocument, scenarios, simulate } from "@redrive/simulator";
import { seriesRows } from "@redrive/simulator/text";
import type { Command } from "commander";
import { readJson, withFileName } from "../input/documents.ts";
import { addExamples, addSeedFlag, didYouMean } from "../input/flags.ts";
import { addPolicyFlags, choosePolicy, type PolicyFlags } from "../input/policy-choice.ts";
import { jsonLines } from "../print/json-lines.ts";
import {
  addOutputFlags,
  type OutputOptions,
  type Presentation,
  presentResult,
  type Seed,
} from "../print/presentation.ts";
import { table } from "../print/table.ts";
import type { Terminal } from "../print/terminal.ts";
import { reportSvg, reportText } from "./report-text.ts";
import { withStatus } from "./simulation-status.ts";

interface RunFlags extends OutputOptions, Pick<PolicyFlags, "preset" | "policyFile"> {
  readonly list?: boolean;
  readonly document?: boolean;
  readonly seed: Seed;
}

export function addRun(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("run [scenario]")
    .description("Simulate a scenario: a built-in one by name, or a JSON file.");
  command.option("--list", "list the built-in scenarios");
  command.option("--document", "print the scenario as JSON instead of simulating it");
  addPolicyFlags(command);
  addSeedFlag(command);
  addOutputFlags(command, "json", "csv", "svg", "link");
  addExamples(
    command,
    "redrive sim run --list",
    "redrive sim run open-unbounded --seed 7",
    "redrive sim run metastable --preset payment",
    "redrive sim run failover --document > mine.json && redrive sim run mine.json",
  );
  command.action((name: string | undefined, flags: RunFlags) =>
    presentResult(terminal, flags, () => presentRun(terminal, name, flags)),
  );
}

export function presentRun(
  terminal: Terminal,
  name: string | undefined,
  flags: RunFlags,
): Presentation {
  if (flags.list) return presentList();
  if (name === undefined) {
    const text = "no scenario given: pass a name or a file; --list shows the built-in names";
    throw new RedriveError("INVALID_ARGUMENT", text);
  }
  const scenario = withPolicy(findScenario(name), flags);
  if (flags.document) return { json: scenario, text: () => jsonLines(scenario) };
  const { seed } = flags;
  const report = withStatus(terminal, name, (onProgress) =>
    withFileName(name, () => simulate(scenario, { seed, ...(onProgress && { onProgress }) })),
  );
  return presentReport(scenario, report, scenario === scenarios[name] ? name : scenario);
}

/** The policy of the caller of the last server, which the faults of a scenario usually affect. */
function withPolicy(scenario: ScenarioDocument, flags: RunFlags): ScenarioDocument {
  if (flags.preset === undefined && flags.policyFile === undefined) return scenario;
  const { document: policy, guards } = choosePolicy(flags);
  if (scenario.world === "CONTENTION" || scenario.world === "QUEUE") return { ...scenario, policy };
  const { tiers = [{}] } = scenario;
  const last = tiers.at(-1) ?? {};
  const destination = { ...last.destination, ...guards, policy };
  return { ...scenario, tiers: [...tiers.slice(0, -1), { ...last, destination }] };
}

function presentReport(
  scenario: ScenarioDocument,
  report: Report,
  shared: ScenarioDocument | string,
): Presentation {
  return {
    seed: report.seed,
    json: report,
    text: (style) => reportText(scenario, report, style),
    csv: () => [...seriesRows(report)],
    svg: () => reportSvg(scenario, report),
    run: { view: "system", seed: report.seed, scenarios: [shared] },
  };
}

function presentList(): Presentation {
  const all = Object.values(scenarios);
  const rows = all.map(({ name = "", description = "" }) => [name, description]);
  return {
    json: { scenarios: all },
    text: (style) =>
      table([{ head: "scenario" }, { head: "what it shows", wraps: true }], rows, style),
    csv: () => [["scenario", "description"], ...rows],
  };
}

/** Finds a built-in scenario, or reads a file if the name looks like a path. */
export function findScenario(name: string): ScenarioDocument {
  const shipped = Object.hasOwn(scenarios, name) ? scenarios[name] : undefined;
  if (shipped !== undefined) return shipped;
  if (/[./\\]|^-$/u.test(name)) return scenarioOf(readJson(name), name);
  const hint = didYouMean(name, Object.keys(scenarios)) || " List all with: redrive sim run --list";
  throw new RedriveError("INVALID_ARGUMENT", `unknown scenario ${quote(name)}.${hint}`);
}

/** Refuses a policy or destination document, and says which commands take it. */
function scenarioOf(read: unknown, file: string): ScenarioDocument {
  const fields = isObject(read) ? Object.keys(read) : [];
  const has = (names: ReadonlySet<string>) => fields.some((field) => names.has(field));
  if (has(ONLY_IN_SCENARIOS) || !has(ONLY_IN_POLICIES)) return read as ScenarioDocument;
  const commands = `\`redrive sim failover --policy-file ${file}\`, or \`redrive sim run NAME --policy-file ${file}\` with a built-in scenario`;
  const message = `${quote(file)} is a policy, not a scenario: use ${commands}`;
  throw new RedriveError("INVALID_ARGUMENT", message);
}

const ONLY_IN_SCENARIOS: ReadonlySet<string> = new Set(["clients", "world", "tiers", "timeline"]);

/** Also the field of a destination document. Scenarios have a description, too. */
const ONLY_IN_POLICIES: ReadonlySet<string> = new Set(
  ["policy", ...Object.keys(POLICY_FIELDS)].filter((field) => field !== "description"),
);
