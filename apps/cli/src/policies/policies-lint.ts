/**
 * `redrive policies lint`: finds problems in policies, destinations and tiers. Exits with 1 on
 * errors, and with 3 if some of several files could not be read.
 */
import { formatCount, RedriveError } from "@redrive/core";
import { type Finding, type LintContext, type LintSubject, lint } from "@redrive/simulator";
import type { CsvRow } from "@redrive/simulator/export";
import type { Command } from "commander";
import { readJson } from "../input/documents.ts";
import { addExamples, choiceFlag, durationFlag, integerFlag } from "../input/flags.ts";
import { namedPolicy } from "../input/policy-choice.ts";
import {
  addOutputFlags,
  FAILED,
  OK,
  type OutputOptions,
  PARTIAL,
  type Presentation,
  presentResult,
  USAGE_ERROR,
} from "../print/presentation.ts";
import type { Terminal, TextStyle } from "../print/terminal.ts";
import { wrap } from "../print/wrap.ts";
import { findingLines } from "./finding-text.ts";
import { lintRun } from "./lint-link.ts";
import { type DrawnDocument, lintSvg } from "./lint-svg.ts";

interface LintFlags extends OutputOptions {
  readonly preset?: readonly string[];
  readonly clients?: number;
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

export function presentLint(files: readonly string[], flags: LintFlags): Presentation {
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
  return {
    ...(clients !== undefined && { clients }),
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
