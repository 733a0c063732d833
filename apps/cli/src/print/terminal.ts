/**
 * Terminal: the terminal that a command runs in, and its only way to write output. Tests pass a
 * fake; `systemTerminal` is the real one.
 */
import { once } from "node:events";
import process from "node:process";
import { colorPaint, type Paint, plainPaint } from "./paint.ts";

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
