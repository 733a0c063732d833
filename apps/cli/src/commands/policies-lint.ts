/**
 * `redrive policies lint`: what will hurt in a policy, a destination or a set of tiers. Errors exit
 * with 1; where only some of several files could be read, the exit is 3.
 */
import { formatCount, RedriveError } from "@redrive/core";
import { type Finding, type LintContext, type LintSubject, lint } from "@redrive/simulator";
import type { CsvRow } from "@redrive/simulator/export";
import type { Command } from "commander";
import { readJson } from "../documents.ts";
import { findingLines } from "../finding-lines.ts";
import { addExamples, spanFlag, wholeFlag, wordFlag } from "../flags.ts";
import { lintRun } from "../lint-link.ts";
import { type DrawnDocument, lintSvg } from "../lint-svg.ts";
import { namedPolicy } from "../policy-choice.ts";
import {
  addOutput,
  FAILED,
  finish,
  OK,
  type OutputOptions,
  PARTIAL,
  type Presentation,
  WRONG_USE,
} from "../presentation.ts";
import type { Look, Screen } from "../screen.ts";
import { wrap } from "../terminal/wrap.ts";

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

export function addLint(parent: Command, screen: Screen): void {
  const command = parent
    .command("lint [files...]")
    .description("say what will hurt in policies, destinations or tiers; exits 1 on errors")
    .option("--preset <name>", "a policy that ships (may be repeated)", gather)
    .option("--clients <count>", "clients that may fail at once", wholeFlag(1, 2_000_000))
    .option("--method <name>", "HTTP method of the calls", (text) => text.toUpperCase())
    .option("--idempotent <answer>", "repeating is harmless: yes, no", wordFlag("yes", "no"))
    .option("--waits <who>", "person, service or job", wordFlag("person", "service", "job"))
    .option("--outage <span>", "longest outage to survive", spanFlag)
    .option("--minimum-wait <span>", "no retry may come earlier", spanFlag)
    .option("--shards <count>", "parts that fail by themselves", wholeFlag(1, 1000));
  addOutput(command, "json", "csv", "svg", "url");
  addExamples(
    command,
    "redrive policies lint policies/*.json --clients 400 --outage 8s",
    "redrive policies lint --preset aws-standard --waits person",
    "redrive policies lint orders.json --clients 400 --url",
  );
  command.action((files: string[], flags: LintFlags) =>
    finish(screen, flags, () => presentLint(files, flags)),
  );
}

function gather(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text];
}

/** What came of one document: findings, or why there are none. */
interface Linted {
  readonly name: string;
  readonly findings: readonly Finding[];
  /** It is not a legal document. */
  readonly problem?: string;
  /** It could not be read at all. */
  readonly unread?: string;
}

/** With the document itself, where it is a legal one. */
interface Looked extends Linted {
  readonly document?: LintSubject;
}

export function presentLint(files: readonly string[], flags: LintFlags): Presentation {
  const { preset = [] } = flags;
  if (files.length + preset.length === 0) {
    const text = "what should be linted? Give files, or --preset with a name";
    throw new RedriveError("INVALID_ARGUMENT", text);
  }
  const context = contextOf(flags);
  const looked = [
    ...preset.map((name) => lintPreset(name, context)),
    ...files.map((path) => lintFile(path, context)),
  ];
  const results = looked.map(({ document: _, ...result }) => result);
  const documents = looked.flatMap(({ name, document }) =>
    document === undefined ? [] : [{ name, document }],
  );
  const run = flags.url ? lintRun(documents, context) : undefined;
  return {
    ...(run !== undefined && { run }),
    ...(flags.url && run === undefined && { notes: [NO_LINK] }),
    json: { results },
    text: (look) => lintText(results, look),
    csv: () => csvRows(results),
    svg: () => lintSvg("What will hurt", results.map(drawn)),
    exitCode: exitCodeOf(results),
  };
}

const NO_LINK = "the page has no place for these documents, so there is no link";

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

/** With its guards where it has some: the catalogue's entries are destinations. */
function lintPreset(name: string, context: LintContext): Looked {
  const { document: policy, guards } = namedPolicy(name);
  const document = Object.keys(guards).length > 0 ? { policy, ...guards } : policy;
  return { name, document, findings: lint(document, context) };
}

function lintFile(name: string, context: LintContext): Looked {
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
  if (unread === results.length) return WRONG_USE;
  if (unread > 0) return PARTIAL;
  const isBad = ({ findings, problem }: Linted) =>
    problem !== undefined || findings.some(({ severity }) => severity === "error");
  return results.some(isBad) ? FAILED : OK;
}

function lintText(results: readonly Linted[], look: Look): readonly string[] {
  return results.flatMap((result) => ["", ...resultLines(result, look)]).slice(1);
}

function resultLines(result: Linted, look: Look): readonly string[] {
  const { name, findings, problem, unread } = result;
  const { paint, width } = look;
  if (isRefused(result)) {
    const text = problem === undefined ? (unread ?? "") : `${name} is ${summaryOf(result)}`;
    return wrap(text, width).map((line) => paint("bad", line));
  }
  return [
    paint("strong", `${name}: ${summaryOf(result)}`),
    ...findings.flatMap((one) => findingLines(one, look)),
  ];
}

function drawn(result: Linted): DrawnDocument {
  return { name: result.name, summary: summaryOf(result), findings: result.findings };
}

function isRefused({ problem, unread }: Linted): boolean {
  return problem !== undefined || unread !== undefined;
}

/** One line on a document: what was found, or why nothing could be. */
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
    ...count("info", "remark"),
  ];
  return counts.length === 0 ? "nothing will hurt that lint knows of" : counts.join(", ");
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
