/**
 * `redrive policies lint`: finds problems in policies, destinations and tiers. Exits with 1 on
 * errors, and with 3 if some of several files could not be read.
 */
import {
  type DestinationDocument,
  formatCount,
  type Patience,
  type PolicyDocument,
  type PresetName,
  RedriveError,
} from "@redrive/core";
import {
  assertStrategyCount,
  type CallsDocument,
  checkScenario,
  type Finding,
  LINT_CLIENTS,
  type LintContext,
  type LintSubject,
  lint,
  type Severity,
  scenarios,
} from "@redrive/simulator";
import type { CsvRow } from "@redrive/simulator/export";
import type { SharedRun } from "@redrive/simulator/share";
import type { Command } from "commander";
import { label, MARGIN, svgDocument, WIDTH } from "../terminal/charts.ts";
import { readJson } from "../terminal/documents.ts";
import {
  addExamples,
  choiceFlag,
  DEFAULT_SEED,
  durationFlag,
  integerFlag,
} from "../terminal/flags.ts";
import { namedPolicy } from "../terminal/policy-choice.ts";
import {
  addOutputFlags,
  FAILED,
  OK,
  type OutputOptions,
  PARTIAL,
  type Presentation,
  presentResult,
  USAGE_ERROR,
} from "../terminal/presentation.ts";
import {
  type Terminal,
  type TextStyle,
  type Tone,
  wrap,
  wrapWithPrefix,
} from "../terminal/terminal.ts";

interface LintFlags extends OutputOptions {
  readonly preset?: readonly string[];
  readonly clients?: number;
  readonly perProcess?: number;
  readonly patience?: Patience;
  readonly method?: string;
  readonly idempotent?: "yes" | "no";
  readonly waits?: "person" | "service" | "job";
  readonly outage?: number;
  readonly minimumWait?: number;
  readonly shards?: number;
}

export function addLint(parent: Command, terminal: Terminal): void {
  const command = parent
    .command("lint [files...]")
    .description("Find problems in policies, destinations or tiers. Exits with 1 on errors.")
    .option("--preset <name>", "a preset or a catalog entry; repeatable", collect)
    .option(
      "--clients <count>",
      "number of clients that may fail at once",
      integerFlag(1, 2_000_000),
    )
    .option(
      "--per-process <count>",
      "how many of them share a process and its guards (default: all)",
      integerFlag(1, 2_000_000),
    )
    .option(
      "--patience <kind>",
      "what a call does when a guard refuses it: fail-fast or wait",
      choiceFlag("fail-fast", "wait"),
    )
    .option("--method <name>", "HTTP method of the calls", (text) => text.toUpperCase())
    .option(
      "--idempotent <answer>",
      "whether calls are safe to repeat: yes or no",
      choiceFlag("yes", "no"),
    )
    .option(
      "--waits <who>",
      "who waits for the response: person, service or job",
      choiceFlag("person", "service", "job"),
    )
    .option("--outage <duration>", "longest outage to survive", durationFlag)
    .option("--minimum-wait <duration>", "minimum that every wait must have", durationFlag)
    .option("--shards <count>", "number of parts that fail independently", integerFlag(1, 1000));
  addOutputFlags(command, "json", "csv", "svg", "link");
  addExamples(
    command,
    "redrive policies lint policies/*.json --clients 400 --outage 8s",
    "redrive policies lint --preset aws-standard --waits person",
    "redrive policies lint orders.json --clients 400 --link",
  );
  command.action((files: string[], flags: LintFlags) =>
    presentResult(terminal, flags, () => presentLint(files, flags)),
  );
}

function collect(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text];
}

/** The result for one document: its findings, or why there are none. */
interface Linted {
  readonly name: string;
  readonly findings: readonly Finding[];
  /** Why the document is invalid. */
  readonly problem?: string;
  /** Why the file could not be read. */
  readonly unread?: string;
}

/** With the document, if it is valid. */
interface LintedWithDocument extends Linted {
  readonly document?: LintSubject;
}

function presentLint(files: readonly string[], flags: LintFlags): Presentation {
  const { preset = [] } = flags;
  if (files.length + preset.length === 0) {
    const text = "nothing to lint: pass files, or --preset with a name";
    throw new RedriveError("INVALID_ARGUMENT", text);
  }
  const context = contextOf(flags);
  const linted = [
    ...preset.map((name) => lintPreset(name, context)),
    ...files.map((path) => lintFile(path, context)),
  ];
  const results = linted.map(({ document: _, ...result }) => result);
  const documents = linted.flatMap(({ name, document }) =>
    document === undefined ? [] : [{ name, document }],
  );
  const run = flags.link ? lintRun(documents, context) : undefined;
  return {
    ...(run !== undefined && { run }),
    ...(flags.link && run === undefined && { notes: [NO_LINK] }),
    json: { results },
    text: (style) => lintText(results, style),
    csv: () => csvRows(results),
    svg: () => lintSvg("Lint findings", results.map(drawnDocument)),
    exitCode: exitCodeOf(results),
  };
}

const NO_LINK = "the web page cannot show these documents, so there is no link";

function contextOf(flags: LintFlags): LintContext {
  const { clients, method, idempotent, waits, outage, minimumWait, shards } = flags;
  const { perProcess: callsPerProcess, patience } = flags;
  return {
    ...(clients !== undefined && { clients }),
    ...(callsPerProcess !== undefined && { callsPerProcess }),
    ...(patience && { patience }),
    ...(method !== undefined && { method }),
    ...(idempotent && { idempotent: idempotent === "yes" }),
    ...(waits && { waits }),
    ...(outage !== undefined && { outageMs: outage }),
    ...(minimumWait !== undefined && { minimumWaitMs: minimumWait }),
    ...(shards !== undefined && { shards }),
  };
}

/** Includes the guards of a catalog entry. */
function lintPreset(name: string, context: LintContext): LintedWithDocument {
  const { document: policy, guards } = namedPolicy(name);
  const document = Object.keys(guards).length > 0 ? { policy, ...guards } : policy;
  return { name, document, findings: lint(document, context) };
}

function lintFile(name: string, context: LintContext): LintedWithDocument {
  let document: LintSubject;
  try {
    document = readJson(name) as LintSubject;
  } catch (error) {
    if (error instanceof RedriveError) return { name, findings: [], unread: error.message };
    throw error;
  }
  try {
    return { name, document, findings: lint(document, context) };
  } catch (error) {
    if (error instanceof RedriveError) return { name, findings: [], problem: error.message };
    throw error;
  }
}

function exitCodeOf(results: readonly Linted[]): number {
  const unread = results.filter((one) => one.unread !== undefined).length;
  if (unread === results.length) return USAGE_ERROR;
  if (unread > 0) return PARTIAL;
  const isBad = ({ findings, problem }: Linted) =>
    problem !== undefined || findings.some(({ severity }) => severity === "error");
  return results.some(isBad) ? FAILED : OK;
}

function lintText(results: readonly Linted[], style: TextStyle): readonly string[] {
  return results.flatMap((result) => ["", ...resultLines(result, style)]).slice(1);
}

function resultLines(result: Linted, style: TextStyle): readonly string[] {
  const { name, findings, problem, unread } = result;
  const { paint, width } = style;
  if (isUnusable(result)) {
    const text = problem === undefined ? (unread ?? "") : `${name} is ${summaryOf(result)}`;
    return wrap(text, width).map((line) => paint("bad", line));
  }
  return [
    paint("strong", `${name}: ${summaryOf(result)}`),
    ...findings.flatMap((one) => findingLines(one, style)),
  ];
}

function drawnDocument(result: Linted): DrawnDocument {
  return { name: result.name, summary: summaryOf(result), findings: result.findings };
}

function isUnusable({ problem, unread }: Linted): boolean {
  return problem !== undefined || unread !== undefined;
}

/** One line about a document: the number of findings, or why there are none. */
function summaryOf({ findings, problem, unread }: Linted): string {
  if (problem !== undefined) return `refused: ${problem}`;
  if (unread !== undefined) return unread;
  const count = (severity: Finding["severity"], noun: string) => {
    const found = findings.filter((one) => one.severity === severity).length;
    return found === 0 ? [] : [formatCount(found, noun)];
  };
  const counts = [
    ...count("error", "error"),
    ...count("warning", "warning"),
    ...count("info", "note"),
  ];
  return counts.length === 0 ? "no problems found" : counts.join(", ");
}

function csvRows(results: readonly Linted[]): CsvRow[] {
  const head = ["document", "severity", "rule", "field", "sentence", "fix", "docs"];
  const rows = results.flatMap(({ name, findings, problem, unread }) =>
    problem === undefined && unread === undefined
      ? findings.map((one) => [
          name,
          one.severity,
          one.id,
          one.field,
          one.sentence,
          one.fix,
          one.docs,
        ])
      : [[name, "error", "document", "", problem ?? unread, "", ""]],
  );
  return [head, ...rows];
}

const TONES: Readonly<Record<Severity, Tone>> = { error: "bad", warning: "warn", info: "accent" };

/** Length of the longest severity, so that the rules align. */
const SEVERITY_WIDTH = 7;

function findingLines(finding: Finding, { width, paint }: TextStyle): readonly string[] {
  const { severity, id, field, sentence, fix, docs } = finding;
  const indent = " ".repeat(SEVERITY_WIDTH + 4);
  const severityText = paint(TONES[severity], severity.padEnd(SEVERITY_WIDTH));
  return [
    `  ${severityText}  ${paint("strong", id)} ${paint("faint", `(${field})`)}`,
    ...wrapWithPrefix(indent, sentence, width),
    ...wrapWithPrefix(`${indent}Fix: `, fix, width),
    paint("faint", `${indent}${docs}`),
  ];
}

// Lint link: the view of the web page that shows the linted documents with their findings: the
// curve for one policy, the herd for several or for many clients, the system for anything else.

interface LintedDocument {
  readonly name: string;
  readonly document: LintSubject;
}

/** Undefined if the page has no view for the documents. */
function lintRun(
  documents: readonly LintedDocument[],
  context: LintContext,
): SharedRun | undefined {
  const policies = documents.flatMap(({ name, document }) =>
    isPolicy(document) ? [{ name, policy: document }] : [],
  );
  if (policies.length < documents.length) return systemRun(documents, context);
  const [first, ...others] = policies;
  if (first === undefined) return undefined;
  const { clients, outageMs } = context;
  if (others.length === 0 && clients === undefined) {
    const { policy } = first;
    return {
      view: "curve",
      seed: DEFAULT_SEED,
      policy,
      ...(outageMs !== undefined && { outageMs }),
    };
  }
  assertStrategyCount("--link", policies.length);
  return {
    view: "herd",
    seed: DEFAULT_SEED,
    strategies: policies,
    clients: clients ?? LINT_CLIENTS,
    windowMs: WINDOW_MS,
  };
}

/** The default window of the herd view. */
const WINDOW_MS = 10;

function isPolicy(document: LintSubject): document is PolicyDocument | PresetName {
  return typeof document === "string" || !("policy" in document || "tiers" in document);
}

/** The built-in scenario `metastable` with the linted documents as its tiers. */
function systemRun(
  documents: readonly LintedDocument[],
  context: LintContext,
): SharedRun | undefined {
  const all = documents.map(({ name, document }) => scenarioOf(name, document, context));
  const isValid = all.every((scenario) => checkScenario(scenario).length === 0);
  return isValid ? { view: "system", seed: DEFAULT_SEED, scenarios: all } : undefined;
}

function scenarioOf(name: string, document: LintSubject, { clients }: LintContext): CallsDocument {
  const { description: _, ...shipped } = scenarios["metastable"] as CallsDocument;
  const server = shipped.tiers?.at(-1)?.server;
  const tiers = destinationsOf(document).map((destination, index, { length }) => ({
    destination,
    ...(index === length - 1 && server !== undefined && { server }),
  }));
  return {
    ...shipped,
    name: name
      .toLowerCase()
      .replace(/[^a-z0-9-]+/gu, "-")
      .slice(-64),
    clients: { ...shipped.clients, ...(clients !== undefined && { count: clients }) },
    tiers,
  };
}

function destinationsOf(document: LintSubject): readonly DestinationDocument[] {
  if (typeof document === "object" && "tiers" in document) {
    return document.tiers.map(({ policy, retryBudget }) => ({
      ...(policy !== undefined && { policy }),
      ...(retryBudget !== undefined && { retryBudget }),
    }));
  }
  return [isPolicy(document) ? { policy: document } : document];
}

// Lint SVG: draws findings: a dot for the severity, the rule, the problem, the fix.

interface DrawnDocument {
  readonly name: string;
  /** One line about the whole document. */
  readonly summary: string;
  readonly findings: readonly Finding[];
}

const LINE = 18;
const GAP = 10;
const LEFT = MARGIN + 22;
/** Characters that fit next to the dot, at 13 px. */
const COLUMNS = Math.floor((WIDTH - LEFT - MARGIN) / 7);

const DOTS: Readonly<Record<Severity, string>> = {
  error: "dot bad",
  warning: "dot",
  info: "range",
};

type Line = readonly [text: string, kind: string];

function lintSvg(title: string, documents: readonly DrawnDocument[]): string {
  const body: string[] = [];
  let y = MARGIN;
  const write = (lines: readonly Line[], x: number) => {
    for (const [text, kind] of lines) {
      body.push(label(x, y, text, kind));
      y += LINE;
    }
  };
  for (const { name, summary, findings } of documents) {
    write(
      wrap(`${name}: ${summary}`, COLUMNS).map((line): Line => [line, ""]),
      MARGIN,
    );
    for (const finding of findings) {
      body.push(
        `<circle cx="${MARGIN + 8}" cy="${y - 4}" r="5" class="${DOTS[finding.severity]}"/>`,
      );
      write(linesOf(finding), LEFT);
      y += GAP;
    }
    y += GAP;
  }
  return svgDocument(title, y, body);
}

function linesOf({ severity, id, field, sentence, fix }: Finding): readonly Line[] {
  return [
    [`${severity} ${id} (${field})`, ""],
    ...wrap(sentence, COLUMNS).map((line): Line => [line, ""]),
    ...wrap(`Fix: ${fix}`, COLUMNS).map((line): Line => [line, "faint"]),
  ];
}
