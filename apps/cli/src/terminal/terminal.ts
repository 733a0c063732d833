/**
 * Terminal: the terminal that a command runs in, and its only way to write output and to ask for a
 * confirmation. Tests pass a fake; `systemTerminal` is the real one. Colors and line breaks of text
 * are here too.
 */

import { once } from "node:events";
import process from "node:process";
import { isCancel, text } from "@clack/prompts";
import { formatCount, RedriveError } from "@redrive/core";

/** Width and colors of printed text. */
export interface TextStyle {
  /** Characters per line. 40 to 240. */
  readonly width: number;
  readonly paint: Paint;
  /** False: a program reads the text, so tables keep whole texts. Default: true. */
  readonly cuts?: boolean;
}

export interface Terminal extends TextStyle {
  /** Standard input and output are a terminal, so the command can ask questions. */
  readonly isInteractive: boolean;
  /** Standard error is a terminal, so the command can draw progress there. */
  readonly showsProgress: boolean;
  /** The arguments after `redrive`, for the command that repeats a run. */
  readonly args: readonly string[];
  /** URL of the web pages, for links. */
  readonly pagesUrl: string;
  /** Writes to standard output. Adds no line break. */
  print(text: string): void;
  /** Writes to standard output, and resolves when more can be written. */
  printMore(text: string): Promise<void>;
  /** Writes to standard error. Adds no line break. */
  printError(text: string): void;
  /** Sets the exit code of the process. */
  setExitCode(code: number): void;
}

/** The default address of `redrive serve` and `redrive dev`. */
const DEFAULT_PAGES_URL = "http://127.0.0.1:7337/ui/";

const DEFAULT_WIDTH = 80;
const MIN_WIDTH = 40;
const MAX_WIDTH = 240;

type Environment = Readonly<Record<string, string | undefined>>;

export function systemTerminal(): Terminal {
  const { stdin, stdout, stderr, env, argv } = process;
  handleClosedPipes(stdout, stderr);
  return {
    width: terminalWidth(env, stdout.columns),
    paint: hasColor(env, stdout.isTTY) ? colorPaint : plainPaint,
    cuts: cutsText(env, stdout.isTTY),
    isInteractive: Boolean(stdin.isTTY && stdout.isTTY),
    showsProgress: Boolean(stderr.isTTY) && env["TERM"] !== "dumb",
    args: argv.slice(2),
    pagesUrl: env["REDRIVE_UI_URL"] || DEFAULT_PAGES_URL,
    print: (text) => void stdout.write(text),
    async printMore(text) {
      if (!stdout.write(text)) await once(stdout, "drain");
    },
    printError: (text) => void stderr.write(text),
    setExitCode: (code) => {
      process.exitCode = code;
    },
  };
}

/** `COLUMNS` overrides the width of the terminal, so that a script can set the width. */
export function terminalWidth(env: Environment, terminalColumns: number | undefined): number {
  const requested = isWidth(env["COLUMNS"]) ? Number(env["COLUMNS"]) : terminalColumns;
  return Math.min(MAX_WIDTH, Math.max(MIN_WIDTH, requested || DEFAULT_WIDTH));
}

/** Another program needs whole texts, unless its user has set a width. */
export function cutsText(env: Environment, isTerminal: boolean | undefined): boolean {
  return Boolean(isTerminal) || isWidth(env["COLUMNS"]);
}

function isWidth(text = ""): boolean {
  return /^\d{1,4}$/u.test(text);
}

/** Follows no-color.org: a non-empty `NO_COLOR` turns colors off. */
export function hasColor(env: Environment, isTerminal: boolean | undefined): boolean {
  if (env["NO_COLOR"]) return false;
  if (env["FORCE_COLOR"]) return env["FORCE_COLOR"] !== "0";
  return Boolean(isTerminal) && env["TERM"] !== "dumb";
}

/** `redrive ... | head` closes the pipe early. That is not a failure, and the exit code is kept. */
function handleClosedPipes(stdout: NodeJS.WriteStream, stderr: NodeJS.WriteStream): void {
  const ignoreClosedPipe = (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
  };
  stdout.on("error", (error) => {
    ignoreClosedPipe(error);
    process.exit();
  });
  // Standard error is closed, but standard output may still have a reader.
  stderr.on("error", ignoreClosedPipe);
}

// Paint: colors text on a terminal that supports it. The text itself always carries the meaning, so
// output without color loses nothing.

export type Tone = "strong" | "faint" | "accent" | "good" | "warn" | "bad";

/** Applies a tone to text. Does not change the number of visible characters. */
export type Paint = (tone: Tone, text: string) => string;

/** ECMA-48 "Select Graphic Rendition" codes that switch a tone on and off. */
const CODES: Readonly<Record<Tone, readonly [number, number]>> = {
  strong: [1, 22],
  faint: [2, 22],
  accent: [36, 39],
  good: [32, 39],
  warn: [33, 39],
  bad: [31, 39],
};

export const plainPaint: Paint = (_, text) => text;

export const colorPaint: Paint = (tone, text) => {
  const [on, off] = CODES[tone];
  return text === "" ? "" : `\u001b[${on}m${text}\u001b[${off}m`;
};

// Wrap: breaks text into lines that fit the terminal. A number and its unit stay on one line.

/** Spaces, except before a unit. */
const BREAKS = / +(?!(?:%|ms|s|min|h|d)(?![\w-]))/u;

/** Returns lines of at most `width` characters. Splits a word that is longer than a line. */
export function wrap(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(BREAKS).flatMap((part) => splitWord(part, width))) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else {
      line = line === "" ? word : `${line} ${word}`;
    }
  }
  return [...lines, line];
}

function splitWord(word: string, width: number): readonly string[] {
  if (word.length <= width || width < 1) return [word];
  return [word.slice(0, width), ...splitWord(word.slice(width), width)];
}

/** Wraps text after a prefix on the first line and indents the other lines by the prefix's length. */
export function wrapWithPrefix(prefix: string, text: string, width: number): readonly string[] {
  const lines = wrap(text, width - prefix.length);
  return lines.map((line, index) => (index === 0 ? prefix : " ".repeat(prefix.length)) + line);
}

// Confirm: before a command changes many items, the user types how many. Without a terminal, the
// command needs --yes.

interface Confirmation {
  /** The operation, such as "discard". */
  readonly verb: string;
  readonly noun: string;
  readonly count: number;
  readonly yes?: boolean | undefined;
}

/** False if the user canceled or typed another number. Throws if there is no terminal to ask on. */
export async function confirmChange(terminal: Terminal, what: Confirmation): Promise<boolean> {
  const { verb, noun, count, yes } = what;
  if (yes || count === 0) return true;
  if (!terminal.isInteractive) {
    const message = `this would ${verb} ${formatCount(count, noun)}: confirm with --yes, or count with --dry-run`;
    throw new RedriveError("INVALID_ARGUMENT", message);
  }
  const message = `This will ${verb} ${formatCount(count, noun)}. Type the number to continue.`;
  const typed = await text({ message });
  return !isCancel(typed) && typed.trim() === String(count);
}
