/**
 * Screen: everything a command knows of the terminal it runs in, and the only way it writes. Tests
 * pass one of their own; `systemScreen` is the real one.
 */
import process from "node:process";
import { colorPaint, type Paint, plainPaint } from "./paint.ts";

/** How output is to look. */
export interface TextStyle {
  /** Characters in a line. 40 to 240. */
  readonly width: number;
  readonly paint: Paint;
}

export interface Terminal extends TextStyle {
  /** Somebody can be asked: input and output are a terminal. */
  readonly isInteractive: boolean;
  /** Somebody sees the error stream: progress may be drawn there. */
  readonly showsProgress: boolean;
  /** The words after `redrive`, for the line that repeats the run. */
  readonly args: readonly string[];
  /** Address of the web pages, for links. */
  readonly pagesUrl: string;
  /** Writes to standard output, as it is. */
  print(text: string): void;
  /** Writes to standard error, as it is. */
  printError(text: string): void;
  /** The exit code, once everything is written. */
  setExitCode(code: number): void;
}

/** What `redrive serve` and `redrive dev` listen on unless told otherwise. */
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
    isInteractive: Boolean(stdin.isTTY && stdout.isTTY),
    showsProgress: Boolean(stderr.isTTY) && env["TERM"] !== "dumb",
    args: argv.slice(2),
    pagesUrl: env["REDRIVE_UI_URL"] || DEFAULT_PAGES_URL,
    print: (text) => void stdout.write(text),
    printError: (text) => void stderr.write(text),
    setExitCode: (code) => {
      process.exitCode = code;
    },
  };
}

/** `COLUMNS` wins over what the terminal says, so that a script can choose. */
export function terminalWidth(env: Environment, terminal: number | undefined): number {
  const asked = /^\d{1,4}$/u.test(env["COLUMNS"] ?? "") ? Number(env["COLUMNS"]) : terminal;
  return Math.min(MAX_WIDTH, Math.max(MIN_WIDTH, asked || DEFAULT_WIDTH));
}

/** no-color.org: any value that is not empty turns colours off. */
export function hasColor(env: Environment, isTerminal: boolean | undefined): boolean {
  if (env["NO_COLOR"]) return false;
  if (env["FORCE_COLOR"]) return env["FORCE_COLOR"] !== "0";
  return Boolean(isTerminal) && env["TERM"] !== "dumb";
}

/** `redrive ... | head` closes the pipe early; that is no failure, and hides none that was found. */
function handleClosedPipes(stdout: NodeJS.WriteStream, stderr: NodeJS.WriteStream): void {
  const onlyPipes = (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
  };
  stdout.on("error", (error) => {
    onlyPipes(error);
    process.exit();
  });
  // Nobody reads the notes: the result may still be wanted.
  stderr.on("error", onlyPipes);
}
