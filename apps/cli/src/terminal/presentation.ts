/**
 * Presentation: the result of a command in every output format: text, JSON, CSV, SVG and a link.
 * A command returns one; `presentResult` writes the format that the flags ask for.
 */
import { writeFileSync } from "node:fs";
import { causedError, type ErrorCode, RedriveError } from "@redrive/core";
import { type CsvRow, csv } from "@redrive/simulator/export";
import { linkTo, type SharedRun } from "@redrive/simulator/share";
import type { Command } from "commander";
import type { Terminal, TextStyle } from "./terminal.ts";

export const OK = 0;
export const FAILED = 1;
export const USAGE_ERROR = 2;
export const PARTIAL = 3;

export type Seed = number | string;

export interface Presentation {
  /** Printed first, with the command that repeats the run. Absent if the result is not random. */
  readonly seed?: Seed;
  /** The complete result. Typed arrays become lists. */
  readonly json: object;
  text(style: TextStyle): readonly string[];
  /** The first row has the column names. */
  csv?(): readonly CsvRow[];
  svg?(): string;
  /** The same run as a link to the web page. */
  readonly run?: SharedRun;
  /** Messages for standard error, which keeps standard output clean for redirection. */
  readonly notes?: readonly string[];
  /** Default: 0. */
  readonly exitCode?: number;
}

export interface OutputOptions {
  readonly json?: boolean;
  readonly csv?: boolean;
  readonly svg?: string;
  readonly link?: boolean;
}

/** Adds the output flags that a command supports. */
export function addOutputFlags(
  command: Command,
  ...kinds: readonly (keyof OutputOptions)[]
): Command {
  if (kinds.includes("json")) command.option("--json", "print the result as JSON");
  if (kinds.includes("csv")) command.option("--csv", "print the result as CSV");
  if (kinds.includes("svg")) command.option("--svg <file>", "also write a chart to an SVG file");
  if (kinds.includes("link"))
    command.option("--link", "also print a link that opens this run on the web page");
  return command;
}

/** Errors in the command's input, as opposed to failures of its work. */
const USAGE_ERROR_CODES: ReadonlySet<ErrorCode> = new Set([
  "INVALID_ARGUMENT",
  "INVALID_POLICY",
  "INVALID_DESTINATION",
  "INVALID_IMPORT",
  "IDEMPOTENCY_KEY_REQUIRED",
]);

/** Runs a command and writes its result, or reports its error. */
export async function presentResult(
  terminal: Terminal,
  options: OutputOptions,
  make: () => Presentation | Promise<Presentation>,
): Promise<void> {
  try {
    writePresentation(terminal, await make(), options);
  } catch (error) {
    reportError(terminal, error);
  }
}

/** Prints a `RedriveError` and sets exit code 2 for wrong usage, else 1. Rethrows other errors. */
export function reportError(terminal: Terminal, error: unknown): void {
  if (!(error instanceof RedriveError)) throw error;
  terminal.printError(`error: ${error.message}\n`);
  terminal.setExitCode(USAGE_ERROR_CODES.has(error.code) ? USAGE_ERROR : FAILED);
}

function writePresentation(terminal: Terminal, shown: Presentation, options: OutputOptions): void {
  const link = options.link && shown.run ? linkTo(terminal.pagesUrl, shown.run) : undefined;
  terminal.print(outputText(terminal, shown, options, link));
  if (!options.json)
    for (const line of noteLines(shown, options, link)) terminal.printError(`${line}\n`);
  if (options.svg !== undefined && shown.svg) writeSvg(terminal, options.svg, shown.svg());
  terminal.setExitCode(shown.exitCode ?? OK);
}

function outputText(
  terminal: Terminal,
  shown: Presentation,
  options: OutputOptions,
  link: string | undefined,
): string {
  if (options.json) {
    return `${jsonLines({ ...shown.json, ...(link && { url: link }) }).join("\n")}\n`;
  }
  if (options.csv && shown.csv) return csv(shown.csv());
  return `${textLines(terminal, shown, link).join("\n")}\n`;
}

/** CSV output cannot contain a link, so the link goes to standard error. */
function noteLines(
  { notes = [] }: Presentation,
  { csv: isCsv }: OutputOptions,
  link: string | undefined,
): readonly string[] {
  return [...notes.map((note) => `note: ${note}`), ...(isCsv && link ? [link] : [])];
}

function textLines(terminal: Terminal, shown: Presentation, link: string | undefined): string[] {
  const first = shown.seed === undefined ? [] : [...replayCommandLines(terminal, shown.seed), ""];
  const last = link === undefined ? [] : ["", `${terminal.paint("faint", "open")} ${link}`];
  return [...first, ...shown.text(terminal), ...last];
}

function writeSvg(terminal: Terminal, path: string, svg: string): void {
  try {
    writeFileSync(path, svg);
  } catch (cause) {
    const reason = (cause as Error).message;
    throw causedError("INVALID_ARGUMENT", `cannot write --svg: ${reason}`, cause);
  }
  terminal.printError(`wrote ${path}\n`);
}

// Replay command: the first line of a random result, with the seed and the command that repeats it.

export function replayCommandLines(
  { args, paint, width }: Pick<Terminal, "args" | "paint" | "width">,
  seed: number | string,
): readonly string[] {
  const command = argsWithSeed(args, seed).map(quoteForShell).join(" ");
  const seedText = `seed ${seed}`;
  const replay = `repeat: redrive ${command}`;
  if (`${seedText}   ${replay}`.length <= width) {
    return [`${paint("strong", seedText)}   ${paint("faint", replay)}`];
  }
  return [paint("strong", seedText), paint("faint", replay)];
}

/** Returns the arguments with `--seed`, added only if it is missing. */
function argsWithSeed(args: readonly string[], seed: number | string): readonly string[] {
  const hasSeed = args.some((arg) => arg === "--seed" || arg.startsWith("--seed="));
  return hasSeed ? args : [...args, "--seed", String(seed)];
}

/** Quotes an argument for a POSIX shell. */
function quoteForShell(arg: string): string {
  return /^[\w@%+=:,./-]+$/u.test(arg) ? arg : `'${arg.replaceAll("'", "'\\''")}'`;
}

export function jsonLines(value: unknown): readonly string[] {
  const asList = (_: string, part: unknown) =>
    part instanceof Float64Array ? Array.from(part) : part;
  const indented = JSON.stringify(value, asList, 2);
  // Matches lists that contain no lists or objects. JSON strings contain no raw line breaks.
  const joined = indented.replace(/\[\n([^[\]{}]*?)\n *\]/gu, (_, entries: string) => {
    return `[${entries.trim().replace(/\n */gu, " ")}]`;
  });
  return joined.split("\n");
}
