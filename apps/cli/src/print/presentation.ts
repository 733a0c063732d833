/**
 * Presentation: what a command comes to, in every form it can be asked for: text for people, JSON
 * and CSV for programs, a picture, a link. Commands make one; `present` writes what was asked for.
 */
import { writeFileSync } from "node:fs";
import { causedError, type ErrorCode, RedriveError } from "@redrive/core";
import { type CsvRow, csv } from "@redrive/simulator/export";
import { linkTo, type SharedRun } from "@redrive/simulator/share";
import type { Command } from "commander";
import { jsonLines } from "./json-lines.ts";
import { replayCommandLines } from "./replay-command.ts";
import type { Terminal, TextStyle } from "./terminal.ts";

export const OK = 0;
export const FAILED = 1;
export const USAGE_ERROR = 2;
export const PARTIAL = 3;

export type Seed = number | string;

export interface Presentation {
  /** Told first, with the command that repeats the run. Absent where nothing is left to chance. */
  readonly seed?: Seed;
  /** The result as it is, for programs; typed arrays become lists. */
  readonly json: object;
  text(style: TextStyle): readonly string[];
  /** The first row names the columns. */
  csv?(): readonly CsvRow[];
  svg?(): string;
  /** The same run for the web page. */
  readonly run?: SharedRun;
  /** Sentences for the error stream, so that the output itself can be kept in a file. */
  readonly notes?: readonly string[];
  /** Default: 0. */
  readonly exitCode?: number;
}

export interface OutputOptions {
  readonly json?: boolean;
  readonly csv?: boolean;
  readonly svg?: string;
  readonly url?: boolean;
}

/** The flags of output that a command can honour. */
export function addOutputFlags(
  command: Command,
  ...kinds: readonly (keyof OutputOptions)[]
): Command {
  if (kinds.includes("json")) command.option("--json", "the result as JSON");
  if (kinds.includes("csv")) command.option("--csv", "the result as CSV");
  if (kinds.includes("svg")) command.option("--svg <file>", "also draw it into an SVG file");
  if (kinds.includes("url")) command.option("--url", "also print a link to the same run");
  return command;
}

/** What somebody wrote is wrong, rather than what came of it. */
const USAGE_ERROR_CODES: ReadonlySet<ErrorCode> = new Set([
  "INVALID_ARGUMENT",
  "INVALID_POLICY",
  "INVALID_DESTINATION",
  "INVALID_IMPORT",
  "IDEMPOTENCY_KEY_REQUIRED",
]);

/** Makes a presentation and writes it. What was wrong with the use of the command exits with 2. */
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

/** Tells what was refused and exits with 2 for wrong use, else 1; throws any other error again. */
export function reportError(terminal: Terminal, error: unknown): void {
  if (!(error instanceof RedriveError)) throw error;
  terminal.printError(`error: ${error.message}\n`);
  terminal.setExitCode(USAGE_ERROR_CODES.has(error.code) ? USAGE_ERROR : FAILED);
}

function writePresentation(terminal: Terminal, shown: Presentation, options: OutputOptions): void {
  const link = options.url && shown.run ? linkTo(terminal.pagesUrl, shown.run) : undefined;
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

/** CSV has no place for a link or a note. */
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
    throw causedError("INVALID_ARGUMENT", `--svg cannot be written: ${reason}`, cause);
  }
  terminal.printError(`wrote ${path}\n`);
}
